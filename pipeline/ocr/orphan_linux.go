package ocr

import "syscall"

// dieWithUs lets the kernel end the engine when we are killed (PR_SET_PDEATHSIG, prctl(2)).
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
