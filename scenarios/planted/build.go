package planted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is the main package of a planted conveyor: cmd/conveyor with the fault
// seam, so that all faults of a soak can act.
const program = "./scenarios/planted/testdata/conveyor"

// Build makes a planted conveyor for each of the named bugs (all, if none is named)
// and a sound one ("") from the same sources, and returns their paths by name.
// It needs the go command and the module's sources; dir must exist.
func Build(ctx context.Context, dir string, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		names = Names()
	}
	for _, name := range names {
		if _, err := Find(name); err != nil {
			return nil, err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return nil, err
	}
	list, err := writeOverlay(root, dir)
	if err != nil {
		return nil, err
	}
	built := map[string]string{"": filepath.Join(dir, "sound")}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", list, "-o", built[""], program)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the planted conveyor: %w\n%s", err, out)
	}
	for _, name := range names {
		built[name] = filepath.Join(dir, prefix+name)
		if err := link(built[""], built[name]); err != nil {
			return nil, err
		}
	}
	return built, nil
}

// moduleRoot returns the folder of the module that we are in.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", fmt.Errorf("find the module: this folder is in none; run it in deadwire's own sources")
	}
	return filepath.Dir(file), nil
}

// writeOverlay writes the files that differ, and the list of them that go build reads.
func writeOverlay(root, dir string) (list string, err error) {
	files, err := overlay(root)
	if err != nil {
		return "", err
	}
	var replace struct{ Replace map[string]string }
	replace.Replace = map[string]string{}
	for path, text := range files {
		stored := filepath.Join(dir, "overlay", filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(stored), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(stored, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace.Replace[filepath.Join(root, filepath.FromSlash(path))] = stored
	}
	text, err := json.Marshal(replace)
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// link gives a program a second name; a file system without hard links gets a copy.
// A symbolic link would not do: a worker is started by the program's real name.
func link(from, to string) error {
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close() // the copy has failed already
		return err
	}
	return out.Close()
}
