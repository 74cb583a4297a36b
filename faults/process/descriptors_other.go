//go:build !linux

package process

import (
	"errors"

	"deadwire/faults"
)

var errNoPrlimit = errors.New("needs prlimit(2), which only Linux has")

func limitable() error { return errNoPrlimit }

func limitDescriptors(faults.Target, int, int) (string, func() error, error) {
	return "", nil, errNoPrlimit
}
