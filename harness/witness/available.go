package witness

// Unavailable says why the exact witness cannot be had here, and what would
// mend it.
type Unavailable struct {
	Why  string
	Mend string
	Err  error // of the system call that told, nil when none did
}

// Error implements error.
func (u *Unavailable) Error() string {
	text := u.Why
	if u.Err != nil {
		text += " (" + u.Err.Error() + ")"
	}
	if u.Mend != "" {
		text += "; " + u.Mend
	}
	return text
}

// Unwrap returns the error of the system call.
func (u *Unavailable) Unwrap() error { return u.Err }
