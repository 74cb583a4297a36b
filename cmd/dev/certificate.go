package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"deadwire/harness"
	"deadwire/harness/wait"
)

// serveTLS makes a server of ours offer TLS, with a certificate for this run. It
// returns when it does.
func serveTLS(ctx context.Context, rig *harness.Rig, dir string) error {
	cert, key := filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	if err := makeCertificate(cert, key); err != nil {
		return err
	}
	if err := giveTo(rig.Server().PID(), cert, key); err != nil {
		return err
	}
	db := rig.BorrowDatabase(rig.Server().Address().Database)
	admin, err := db.Admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range []string{
		"alter system set ssl_cert_file = '" + cert + "'", "alter system set ssl_key_file = '" + key + "'",
		"alter system set ssl = on", "select pg_reload_conf()",
	} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("offer TLS: %w", err)
		}
	}
	url := strings.Replace(db.URL(), "sslmode=disable", "sslmode=require", 1)
	return wait.For(ctx, "the server to offer TLS", func(ctx context.Context) wait.Answer {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return wait.NotYet("%v", err)
		}
		_ = conn.Close(ctx)
		return wait.Done()
	})
}

// giveTo gives files to the user that a process runs as.
func giveTo(pid int, paths ...string) error {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil // ours already
	}
	for _, path := range paths {
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}

func makeCertificate(certPath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
}
