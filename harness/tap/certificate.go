package tap

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// limits of what an authority vouches for
const (
	certified = 30 * 24 * time.Hour // longer than any run
	leavesMax = 64                  // names asked for by clients; a subject knows few servers
)

// authority vouches for a tap that terminates TLS. It is made for one tap, and its
// key never leaves the memory of this process.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	own  *tls.Certificate // for the tap's own names

	mu     sync.Mutex
	leaves map[string]*tls.Certificate // for other names, by name
}

// newAuthority returns one whose own certificate is good for the given names and
// addresses, and for loopback.
func newAuthority(hosts []string) (*authority, error) {
	a := &authority{leaves: make(map[string]*tls.Certificate)}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make key of run CA: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "deadwire run CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, MaxPathLenZero: true,
	}
	der, err := sign(template, template, a.key, a.key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of run CA: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read certificate of run CA: %w", err)
	}
	a.own, err = a.issue(append([]string{"localhost", "127.0.0.1", "::1"}, hosts...))
	return a, err
}

// root returns the authority's certificate, as libpq's sslrootcert wants it.
func (a *authority) root() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue makes a key and a certificate for names and addresses.
func (a *authority) issue(hosts []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key for %v: %w", hosts, err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("make certificate for %v: %w", hosts, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read certificate for %v: %w", hosts, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(certified)
	return x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
}

// certificate answers a client by the name that it asks for: a redirected program
// names the server that it meant to reach, and checks for that name.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := hello.ServerName
	if name == "" || a.own.Leaf.VerifyHostname(name) == nil {
		return a.own, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.leaves[name]; known != nil {
		return known, nil
	}
	leaf, err := a.issue([]string{name})
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= leavesMax {
		clear(a.leaves)
	}
	a.leaves[name] = leaf
	return leaf, nil
}

// config is how the tap speaks TLS with clients. Only TLS 1.3: its records have known
// lengths, by which the witness finds those that end a session. No tickets, as
// PostgreSQL itself gives none.
func (a *authority) config() *tls.Config {
	return &tls.Config{
		GetCertificate: a.certificate, MinVersion: tls.VersionTLS13,
		NextProtos: []string{protocolALPN}, SessionTicketsDisabled: true,
	}
}
