// Package harnesstest gives Go tests a PostgreSQL database of their own, behind a tap,
// and asserts at the end of each test that every session ended as it should: closed by
// who had opened it, or as the test said.
//
//	func TestMain(m *testing.M) { os.Exit(harnesstest.Main(m)) }
//
//	func TestWorkers(t *testing.T) {
//		db := harnesstest.New(t, harnesstest.Options{Migrate: migrate})
//		program := db.Start("./prefork", "--workers", "3")
//		program.Wait()
//	}
//
// A session that the test's own process opens over Database.URL is seen by the tap;
// of a program that Database.Start starts every process is watched as well, so that
// the one that ended another's session is named.
//
// It owns the server, which all tests of a package share, and each test's database. It
// breaks nothing by itself: Database.Lane leads to the tap and to Toxiproxy.
package harnesstest
