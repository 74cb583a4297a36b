//go:build !linux

package ocr

import "syscall"

// dieWithUs has no means here: an engine that lost us ends with its one call.
func dieWithUs() *syscall.SysProcAttr { return nil }
