package witness

import "encoding/binary"

const (
	headerBytes = 5  // type and length of a protocol message
	walkMax     = 64 // messages of one send that are looked at
)

// names that decide what is done about a send
const (
	startup   = "Startup"
	password  = "PasswordMessage"
	terminate = "Terminate"
	tlsRecord = "TLSRecord"
	tlsAlert  = "TLSAlert" // shows only under TLS 1.2
)

// terminateMessage is a whole one.
var terminateMessage = []byte{'X', 0, 0, 0, headerBytes - 1}

// frontendName names a frontend message by its first byte, as the PostgreSQL
// documentation does (protocol, message formats). Unknown: empty.
func frontendName(first byte) string {
	switch first {
	case 0:
		return startup // or a request for TLS, GSS or cancellation: none has a type byte
	case 'B':
		return "Bind"
	case 'C':
		return "Close"
	case 'd':
		return "CopyData"
	case 'c':
		return "CopyDone"
	case 'f':
		return "CopyFail"
	case 'D':
		return "Describe"
	case 'E':
		return "Execute"
	case 'F':
		return "FunctionCall"
	case 'H':
		return "Flush"
	case 'p':
		return password
	case 'P':
		return "Parse"
	case 'Q':
		return "Query"
	case 'S':
		return "Sync"
	case 'X':
		return terminate
	case 0x15:
		return tlsAlert
	case 0x17:
		return tlsRecord
	default:
		return ""
	}
}

// messageType names what a send carries: Terminate if any of its messages is
// one, else the first message. header reads the five bytes at an offset.
func messageType(total int, header func(at int, into []byte) error) string {
	var name string
	var head [headerBytes]byte
	for at, n := 0, 0; n < walkMax && at+headerBytes <= total; n++ {
		if header(at, head[:]) != nil {
			break
		}
		length := int(int32(binary.BigEndian.Uint32(head[1:])))
		if head[0] == 'X' && length == headerBytes-1 {
			return terminate
		}
		if n == 0 {
			name = frontendName(head[0])
		}
		if name == "" || name == terminate || length < headerBytes-1 {
			break
		}
		at += 1 + length
	}
	if name == terminate {
		return "" // an X that is no Terminate: the middle of something else
	}
	return name
}
