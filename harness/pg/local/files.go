package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"deadwire/harness/pg/cluster"
)

// confName is the file with our settings, included at the end of
// postgresql.conf, so that it wins over what initdb wrote there.
const confName = "deadwire.conf"

func include(dataDir string) error {
	file, err := os.OpenFile(filepath.Join(dataDir, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("extend postgresql.conf: %w", err)
	}
	_, err = file.WriteString("\ninclude '" + confName + "'\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("extend postgresql.conf: %w", err)
	}
	return nil
}

func writeConf(dataDir, text string, as *account) error {
	path := filepath.Join(dataDir, confName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return as.own(path)
}

func measure(dir string) (content, error) {
	var whole content
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			whole.Files++
			whole.Bytes += info.Size()
		}
		return err
	})
	return whole, err
}

// environment is what server processes get of ours: nothing that PostgreSQL
// reads (PGDATA, PGPORT, …), only what loading a program may need.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func lastLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[max(0, len(lines)-cluster.TailLines):]
}
