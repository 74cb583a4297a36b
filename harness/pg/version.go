package pg

import (
	"fmt"
	"strconv"
	"strings"
)

// MajorMin is the oldest major version that is supported. DROP DATABASE … WITH
// (FORCE) came with it.
const MajorMin = 13

// MajorMax is the newest major version that is tested. A newer one is tried as
// if it were this one.
const MajorMax = 18

// Version is a PostgreSQL release.
type Version struct {
	Major int
	Minor int // 0 for a development, beta or candidate build
}

// String returns the release as PostgreSQL writes it: "15.18".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Supported returns nil, or a TooOldError.
func (v Version) Supported() error {
	if v.Major < MajorMin {
		return &TooOldError{Version: v}
	}
	return nil
}

// VersionOfNumber reads server_version_num: 150018 is 15.18.
func VersionOfNumber(num int) Version {
	return Version{Major: num / 10_000, Minor: num % 10_000}
}

// ParseVersion finds the release in what `postgres --version` prints, such as
// "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)" or "… 18beta1".
func ParseVersion(text string) (Version, error) {
	_, rest, found := strings.Cut(text, "(PostgreSQL) ")
	major, rest := leadingNumber(rest)
	if !found || major == 0 {
		return Version{}, fmt.Errorf("parse PostgreSQL version %q: no release number", text)
	}
	v := Version{Major: major}
	if after, dotted := strings.CutPrefix(rest, "."); dotted {
		v.Minor, _ = leadingNumber(after)
	}
	return v, nil
}

func leadingNumber(s string) (int, string) {
	end := 0
	for end < len(s) && '0' <= s[end] && s[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return 0, s
	}
	return n, s[end:]
}
