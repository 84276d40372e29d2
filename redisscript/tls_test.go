package redisscript_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier/redisscript"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// authority is a certificate authority of a test's own.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func certify(t *testing.T, of *x509.Certificate, by *authority) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of.SerialNumber, of.NotBefore, of.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := of, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	if der, err = x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	der, key := certify(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, write(t, filepath.Join(dir, name+".pem"), "CERTIFICATE", der)}
}

// encrypted starts a server that speaks TLS, and returns its host and port.
func encrypted(t *testing.T, dir string, by *authority) string {
	t.Helper()
	der, key := certify(t, &x509.Certificate{Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, by)
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := write(t, filepath.Join(dir, "redis.pem"), "CERTIFICATE", der), write(t, filepath.Join(dir, "redis.key"), "EC PRIVATE KEY", private)
	for range 5 { // the port may be taken before the server has it
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().(*net.TCPAddr)
		_ = l.Close()
		r, err := servertest.StartRedis("--tls-port", strconv.Itoa(addr.Port), "--tls-cert-file", certFile, "--tls-key-file", keyFile,
			"--tls-ca-cert-file", by.file, "--tls-auth-clients", "no")
		if err == nil {
			t.Cleanup(func() { _ = r.Stop() })
			return addr.String()
		}
	}
	t.Fatal("no server that speaks TLS in five tries")
	return ""
}

// Over TLS scripts run, with a server whose certificate is one of an authority
// that the URL names, and with no other.
func TestTLS_ServersAreHeldToTheirAuthority(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short leaves out what needs a server")
	}
	dir := t.TempDir()
	ours, others := newAuthority(t, dir, "ours"), newAuthority(t, dir, "others")
	addr := encrypted(t, dir, ours)
	script := redisscript.New(`return redis.call('SET', KEYS[1], ARGV[1]) and redis.call('GET', KEYS[1])`)
	for name, c := range map[string]struct {
		url string
		ok  bool
	}{
		"its authority":      {"rediss://" + addr + "/0?ca_file=" + ours.file, true},
		"another authority":  {"rediss://" + addr + "/0?ca_file=" + others.file, false},
		"the system's":       {"rediss://" + addr + "/0", false},
		"without encryption": {"redis://" + addr + "/0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := redisscript.Open(c.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			got, err := redisscript.NewRunner(client).Run(t.Context(), script, []string{"k"}, "v")
			if c.ok && (err != nil || got != "v") {
				t.Errorf("got %v, %v, want v", got, err)
			}
			if !c.ok && !errors.Is(err, redisscript.ErrUnreachable) {
				t.Errorf("got %v, %v, want it not to be reached", got, err)
			}
		})
	}
	for _, url := range []string{"rediss://h?ca_file=/hunter2", "rediss://h?ca_file=" + filepath.Join(dir, "redis.key"), "redis://h?ca_file=" + ours.file} {
		if _, err := redisscript.Open(url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want an error without any of it", url, err)
		}
	}
}
