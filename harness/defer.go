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
	return l.Front.AddRule(tap.Rule{
		Match: func(_ *tap.Session, m event.Message) bool {
			return m.From == event.Frontend && m.Type == "Terminate"
		},
		Do: tap.Drop{}, Always: true,
	})
}
