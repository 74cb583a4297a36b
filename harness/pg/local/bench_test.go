package local_test

import (
	"testing"

	"deadwire/harness/pg/pgtest"
)

// BenchmarkStart prints the medians and ratios of design section 15.
func BenchmarkStart(b *testing.B) {
	pgtest.BenchmarkStart(b, makeLocal(""))
}

func BenchmarkClone(b *testing.B) {
	pgtest.BenchmarkClone(b, makeLocal(""))
}
