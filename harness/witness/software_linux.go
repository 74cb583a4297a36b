package witness

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"strconv"
)

// readSoftware looks at what a process has mapped and open, and at the modules that
// its program was built with. What may not be read tells nothing.
func readSoftware(pid int) []string {
	dir := "/proc/" + strconv.Itoa(pid)
	var found []string
	add := func(name string) {
		if name != "" {
			found = append(found, name)
		}
	}
	maps, _ := os.ReadFile(dir + "/maps")
	for line := range bytes.Lines(maps) {
		if at := bytes.IndexByte(line, '/'); at >= 0 {
			add(softwareOfFile(string(bytes.TrimSpace(line[at:]))))
		}
	}
	files, _ := os.ReadDir(dir + "/fd")
	for _, file := range files {
		if target, err := os.Readlink(dir + "/fd/" + file.Name()); err == nil {
			add(softwareOfFile(target))
		}
	}
	if len(found) > 0 { // no Go program, and its file may be large
		return found
	}
	info, err := buildinfo.ReadFile(dir + "/exe")
	if err != nil {
		return found
	}
	for _, module := range info.Deps {
		add(softwareOfModule(module.Path))
	}
	return found
}
