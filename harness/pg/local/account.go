package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user as whom the server runs: ourselves, or, since PostgreSQL
// refuses to run as root, an unprivileged one.
type account struct {
	name     string
	uid, gid int
	switched bool // it is not ourselves
}

// chooseAccount returns ourselves unless we are root; then "postgres" or "nobody".
func chooseAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return &account{name: "uid " + strconv.Itoa(os.Geteuid()), uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		entry, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(entry.Uid)
		gid, gidErr := strconv.Atoi(entry.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil || uid == 0 {
			continue
		}
		return &account{name: name, uid: uid, gid: gid, switched: true}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody: add one, or run as an ordinary user")
}

// credential returns what a child needs to become the account; nil for ourselves.
func (a *account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if !a.switched {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, a.name, err)
	}
	return nil
}

// reaches reports whether the account may enter a folder and all above it. Only
// permission bits are looked at, which is enough for a choice between folders.
func (a *account) reaches(dir string) bool {
	if !a.switched {
		return true
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || !a.mayEnter(info) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// the execute bits of a folder's mode: the right to enter it
const (
	enterOwner = 0o100
	enterGroup = 0o010
	enterOther = 0o001
)

func (a *account) mayEnter(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	need := fs.FileMode(enterOther)
	switch {
	case int(stat.Uid) == a.uid:
		need = enterOwner
	case int(stat.Gid) == a.gid:
		need = enterGroup
	}
	return info.Mode()&need != 0
}

// RunsAs returns as whom server processes run, for those who make folders for
// them: nil when it is ourselves. Its error says why no such user can be had.
func RunsAs() (*syscall.Credential, error) {
	as, err := chooseAccount()
	if err != nil {
		return nil, err
	}
	return as.credential(), nil
}

// Reaches reports whether server processes may enter a folder and all above it.
func Reaches(dir string) bool {
	as, err := chooseAccount()
	return err == nil && as.reaches(dir)
}
