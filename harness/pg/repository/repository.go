// Package repository serves installed PostgreSQL binaries over HTTP as the
// repository of the embedded provider does, for machines that cannot reach that
// one, and for tests.
//
// It owns the packing: a zip with a tar.xz of the server's programs, libraries
// and shared files, and a checksum beside it, under the paths that
// fergusstrange/embedded-postgres asks for. A release is told by its major
// version only; which minor one is inside is the installation's affair.
package repository

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"deadwire/harness/pg"
)

// Repository is an http.Handler with one artefact per major version. It is safe
// for concurrent use.
type Repository struct {
	packed map[int][]byte // by major version
}

// New returns a repository of installations, each given by the folder with its
// programs, such as /usr/lib/postgresql/15/bin. It packs them all, which takes a
// second or two each: a client would not wait for it. Errors: a folder without a
// server, two of the same major version, and those of Pack.
func New(ctx context.Context, folders ...string) (*Repository, error) {
	r := &Repository{packed: map[int][]byte{}}
	for _, folder := range folders {
		out, err := exec.CommandContext(ctx, filepath.Join(folder, "postgres"), "--version").Output()
		if err != nil {
			return nil, fmt.Errorf("serve PostgreSQL from %s: %w", folder, err)
		}
		version, err := pg.ParseVersion(string(out))
		if err != nil {
			return nil, fmt.Errorf("serve PostgreSQL from %s: %w", folder, err)
		}
		if r.packed[version.Major] != nil {
			return nil, fmt.Errorf("serve PostgreSQL from %s: another folder has major version %d already", folder, version.Major)
		}
		if r.packed[version.Major], err = Pack(ctx, filepath.Dir(folder)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// path is that of an artefact in Maven's layout; the group is the major version.
var path = regexp.MustCompile(`^/io/zonky/test/postgres/embedded-postgres-binaries-[^/]+/(\d+)\.[^/]+/[^/]+\.jar(\.sha256)?$`)

// ServeHTTP implements http.Handler.
func (r *Repository) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	match := path.FindStringSubmatch(request.URL.Path)
	if match == nil {
		http.NotFound(w, request)
		return
	}
	major, err := strconv.Atoi(match[1])
	if err != nil || r.packed[major] == nil {
		http.NotFound(w, request)
		return
	}
	jar := r.packed[major]
	if match[2] != "" {
		jar = []byte(Sum(jar))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(jar)))
	_, _ = w.Write(jar) // a client that went away has no use for an error
}

// Sum returns an artefact's checksum as the repository writes it.
func Sum(jar []byte) string {
	sum := sha256.Sum256(jar)
	return hex.EncodeToString(sum[:])
}

// Pack packs an installation, whose programs are in bin below root. It needs tar
// and xz.
func Pack(ctx context.Context, root string) ([]byte, error) {
	// Least compression: it is read back on this machine.
	args := []string{"-C", root, "-c", "-I", "xz -0 -T 0", "bin/postgres", "bin/initdb", "bin/pg_ctl", "lib"}
	if _, err := os.Stat(filepath.Join(root, "share")); err == nil {
		args = append(args, "share")
	}
	packed, err := exec.CommandContext(ctx, "tar", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", root, explained(err))
	}
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: "postgres-linux-x86_64.txz", Method: zip.Store})
	if err != nil {
		return nil, err
	}
	if _, err := entry.Write(packed); err != nil {
		return nil, err
	}
	err = archive.Close()
	return jar.Bytes(), err
}

// explained adds what a program said on standard error.
func explained(err error) error {
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
