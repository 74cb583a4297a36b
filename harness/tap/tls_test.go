package tap

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
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

// offerTLS makes a new server offer TLS, and lets one of its users in by TLS only.
func offerTLS(data string) error {
	a, err := newAuthority(nil)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(a.own.PrivateKey)
	if err != nil {
		return err
	}
	crt, private := filepath.Join(data, "server.crt"), filepath.Join(data, "server.key")
	hba := filepath.Join(data, "pg_hba.conf")
	rules, err := os.ReadFile(hba)
	if err != nil {
		return err
	}
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString("ssl = on\n")
	return errors.Join(err, conf.Close(), chown(data),
		os.WriteFile(hba, append([]byte("hostnossl all secured all reject\n"), rules...), 0o600),
		os.WriteFile(crt, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.own.Certificate[0]}), 0o600),
		os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
		chown(crt), chown(private))
}
