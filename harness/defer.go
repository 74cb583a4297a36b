package harness

import (
	"deadwire/harness/event"
	"deadwire/harness/tap"
)

// Defer keeps every Terminate that the front tap can read from the server: the FIN
// that follows ends the session as well if its sender was alone with it, and if it
// was not, the others go on (wire facts, section 5). It needs no sight of any
// process. remove lets Terminate through again.
func (l *Lane) Defer() (remove func()) {
	return l.deferring(func(*tap.Session) bool { return true })
}

// DeferUnseen is Defer for each Terminate that the exact witness did not see a process
// send which may: one in pieces, or from a process under another architecture's calls.
func (l *Lane) DeferUnseen() (remove func()) {
	return l.deferring(func(s *tap.Session) bool { return !l.Witness.EndsLawfully(s.ID()) })
}

func (l *Lane) deferring(which func(*tap.Session) bool) (remove func()) {
	return l.Front.AddRule(tap.Rule{
		Match: func(s *tap.Session, m event.Message) bool {
			return m.From == event.Frontend && m.Type == "Terminate" && which(s)
		},
		Do: tap.Drop{}, Always: true,
	})
}
