package tap

import "deadwire/harness/event"

// Words for what cannot work where the tap ends the client's TLS: SCRAM binds the
// password exchange to the certificate that the client sees (RFC 5802, section 6;
// RFC 5929, section 4), and that is not the server's.
const (
	bindingMissed  = "the client left when it was offered no channel binding, which cannot work with TLS terminated here (channel_binding=require; set it to prefer, or pass TLS through)"
	bindingRefused = " (channel binding cannot work with TLS terminated here: set channel_binding=disable, or pass TLS through)"
)

// sqlstateAuthorization is PostgreSQL's answer to a channel binding that does not
// fit: invalid_authorization_specification. A wrong password has another one.
const sqlstateAuthorization = "28000"

// sasl is how far SCRAM authentication has come.
type sasl uint8

const (
	saslNone sasl = iota
	saslOffered
	saslAnswered
)

func (a *sasl) follow(m *event.Message) {
	switch m.Type {
	case "AuthenticationSASL":
		*a = saslOffered
	case "PasswordMessage":
		if *a == saslOffered {
			*a = saslAnswered
		}
	case "AuthenticationOk":
		*a = saslNone
	}
}

// bindingMissed explains a client that goes without an answer to the offer of SCRAM.
// mu is held.
func (s *Session) bindingMissed(side event.Side, manner event.Manner) string {
	if side == event.Frontend && manner == event.FIN && s.sasl == saslOffered && s.tap.authority != nil {
		return bindingMissed
	}
	return ""
}

// bindingRefused explains a server, reached by TLS as well, that finds its own
// certificate missing from the exchange. mu is held.
func (s *Session) bindingRefused(sqlstate string) string {
	if sqlstate == sqlstateAuthorization && s.sasl == saslAnswered && s.tap.authority != nil && s.tap.cfg.ServerTLS != nil {
		return bindingRefused
	}
	return ""
}
