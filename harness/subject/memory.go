package subject

import "github.com/prometheus/procfs"

// Memory returns the most resident memory that the root process has had so far, in
// bytes: 0 once it is gone, and where there is no procfs (VmHWM, proc_pid_status(5)).
func (i *Instance) Memory() int64 {
	p, err := procfs.NewProc(i.pid)
	if err != nil {
		return 0
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0
	}
	return int64(status.VmHWM)
}
