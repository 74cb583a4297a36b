package tap

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

type tlsServer struct {
	addr string
	pool *x509.CertPool
}

// newTLSServer answers SSLRequest with S and echoes over TLS.
func newTLSServer(t *testing.T) tlsServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	assert.NilError(t, err)
	cert, err := x509.ParseCertificate(der)
	assert.NilError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	addr := stub(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 8))
		_, _ = c.Write([]byte{'S'})
		secure := tls.Server(c, config)
		_, _ = io.Copy(secure, secure)
		_ = secure.Close()
	})
	return tlsServer{addr: addr, pool: pool}
}
