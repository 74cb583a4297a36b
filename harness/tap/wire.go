package tap

import (
	"bytes"
	"encoding/binary"

	"deadwire/harness/event"
)

// Sizes of the protocol, in bytes.
const (
	startupMax = 10_000  // MAX_STARTUP_PACKET_LENGTH in PostgreSQL's libpq/pqcomm.h
	messageMax = 1 << 30 // above PostgreSQL's MaxAllocSize nothing can be a message
	bodyMax    = 1024    // of a message's beginning, enough for names, SQLSTATE, a leading comment
)

// Codes in the place of a protocol version in a start-up packet.
const (
	codeCancel  = 80877102
	codeSSL     = 80877103
	codeGSSENC  = 80877104
	majorThree  = 3 // of PostgreSQL's protocol, and in the records of every TLS
	versionBits = 16
)

// kind describes a type of message: its name in the protocol document, how much of
// its body is looked at, and its only possible length without the type byte (0: any).
type kind struct {
	name  string
	keep  int
	fixed int
}

// frontendKinds are the messages that a client may send, by type byte.
// Nothing of a 'p' (password or SASL) or of COPY data is ever looked at.
var frontendKinds = [128]kind{
	'B': {name: "Bind", keep: bodyMax},
	'C': {name: "Close", keep: bodyMax},
	'D': {name: "Describe", keep: bodyMax},
	'E': {name: "Execute", keep: bodyMax},
	'F': {name: "FunctionCall"},
	'H': {name: "Flush", fixed: 4},
	'P': {name: "Parse", keep: bodyMax},
	'Q': {name: "Query", keep: bodyMax},
	'S': {name: "Sync", fixed: 4},
	'X': {name: "Terminate", fixed: 4},
	'c': {name: "CopyDone", fixed: 4},
	'd': {name: "CopyData"},
	'f': {name: "CopyFail"},
	'p': {name: "PasswordMessage"},
}

// backendKinds are the messages that a server may send, by type byte.
var backendKinds = [128]kind{
	'1': {name: "ParseComplete", fixed: 4},
	'2': {name: "BindComplete", fixed: 4},
	'3': {name: "CloseComplete", fixed: 4},
	'A': {name: "NotificationResponse"},
	'C': {name: "CommandComplete", keep: 64},
	'D': {name: "DataRow"},
	'E': {name: "ErrorResponse", keep: bodyMax},
	'G': {name: "CopyInResponse"},
	'H': {name: "CopyOutResponse"},
	'I': {name: "EmptyQueryResponse", fixed: 4},
	'K': {name: "BackendKeyData", keep: 4 + 256},
	'N': {name: "NoticeResponse"},
	'R': {name: "Authentication", keep: 4},
	'S': {name: "ParameterStatus", keep: 256},
	'T': {name: "RowDescription"},
	'V': {name: "FunctionCallResponse"},
	'W': {name: "CopyBothResponse"},
	'Z': {name: "ReadyForQuery", keep: 1, fixed: 5},
	'c': {name: "CopyDone", fixed: 4},
	'd': {name: "CopyData"},
	'n': {name: "NoData", fixed: 4},
	's': {name: "PortalSuspended", fixed: 4},
	't': {name: "ParameterDescription"},
	'v': {name: "NegotiateProtocolVersion", keep: 4},
}

// authentications are the names of Authentication messages by their code.
var authentications = map[uint32]string{
	0: "AuthenticationOk", 2: "AuthenticationKerberosV5", 3: "AuthenticationCleartextPassword",
	5: "AuthenticationMD5Password", 7: "AuthenticationGSS", 8: "AuthenticationGSSContinue",
	9: "AuthenticationSSPI", 10: "AuthenticationSASL", 11: "AuthenticationSASLContinue",
	12: "AuthenticationSASLFinal",
}

// Types of TLS records that matter by themselves.
const (
	recordAlert     = 21
	recordHandshake = 22
)

// records are the names of TLS record types (RFC 8446, section 5.1).
var records = map[byte]string{
	20: "TLS change_cipher_spec", 21: "TLS alert", 22: "TLS handshake", 23: "TLS application_data",
}

func kindOf(side event.Side, typ byte) kind {
	switch {
	case typ >= 128:
		return kind{}
	case side == event.Frontend:
		return frontendKinds[typ]
	}
	return backendKinds[typ]
}

// cutString takes a zero-terminated string off b. A string whose end was not kept
// counts as not there.
func cutString(b []byte) (str, rest []byte, ok bool) {
	return bytes.Cut(b, []byte{0})
}

func uint32At(b []byte, i int) uint32 {
	if len(b) < i+4 {
		return 0
	}
	return binary.BigEndian.Uint32(b[i:])
}
