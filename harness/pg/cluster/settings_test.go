package cluster_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
)

func TestConf(t *testing.T) {
	t.Parallel()
	place := cluster.Place{Port: 20001, SocketDir: "/tmp/x"}
	for name, tc := range map[string]struct {
		major    int
		own      map[string]string
		has, not []string
	}{
		"listens where it is told": {major: 15, has: []string{"port = '20001'", `unix_socket_directories = '"/tmp/x"'`, "listen_addresses = '127.0.0.1'"}},
		"is durable but for fsync": {major: 15, has: []string{"fsync = 'off'", "synchronous_commit = 'on'"}},
		"version 13 lacks a name":  {major: 13, not: []string{"min_dynamic_shared_memory"}},
		"version 14 has it":        {major: 14, has: []string{"min_dynamic_shared_memory = '16MB'"}},
		"own settings win":         {major: 18, own: map[string]string{"FSync": "on"}, has: []string{"fsync = 'on'"}, not: []string{"fsync = 'off'"}},
		"values are quoted":        {major: 18, own: map[string]string{"search_path": `it's a \ path`}, has: []string{`search_path = 'it''s a \\ path'`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := cluster.Conf(pg.Version{Major: tc.major}, place, tc.own)
			assert.NilError(t, err)
			lines := strings.Split(text, "\n")
			for _, line := range tc.has {
				assert.Assert(t, slices.Contains(lines, line), "want %q in:\n%s", line, text)
			}
			for _, part := range tc.not {
				assert.Assert(t, !strings.Contains(text, part), "unwanted %q in:\n%s", part, text)
			}
		})
	}
}

func TestConfRefusesReservedSettings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"port", "listen_addresses", "unix_socket_directories", "Log_Line_Prefix", "lc_messages", "dynamic_shared_memory_type"} {
		_, err := cluster.Conf(pg.Version{Major: 15}, cluster.Place{}, map[string]string{name: "x"})
		var reserved *cluster.ReservedError
		assert.Assert(t, errors.As(err, &reserved), "%s gave %v", name, err)
		assert.Equal(t, reserved.Name, strings.ToLower(name))
	}
}

func TestInitArgsFollowTheVersion(t *testing.T) {
	t.Parallel()
	for major, want := range map[int][2]bool{13: {false, false}, 14: {true, false}, 17: {true, false}, 18: {true, true}} {
		args := cluster.InitArgs(pg.Version{Major: major}, "/d", "/p")
		assert.Assert(t, slices.Contains(args, "--pgdata=/d") && slices.Contains(args, "--pwfile=/p"))
		got := [2]bool{slices.Contains(args, "--no-instructions"), slices.Contains(args, "--no-data-checksums")}
		assert.Equal(t, got, want, "version %d", major)
	}
}
