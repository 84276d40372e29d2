package simulate

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files is what a simulated installation consists of: what the providers know
// and what an account needs to talk to them.
type Files struct {
	CAFile   string `json:"ca_file"`
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`

	APNsKeyFile string `json:"apns_key_file"`
	APNsKeyID   string `json:"apns_key_id"`
	APNsTeamID  string `json:"apns_team_id"`
	APNsTopic   string `json:"apns_topic"`

	// The key of the account, and what subscriptions are made from.
	VAPIDPrivateKey    string `json:"vapid_private_key"`
	VAPIDPublicKey     string `json:"vapid_public_key"`
	WebPushSeed        string `json:"webpush_seed"`
	FCMCredentialsFile string `json:"fcm_credentials_file"`
	FCMProject         string `json:"fcm_project"`

	TwilioAccountSID string `json:"twilio_account_sid"`
	TwilioAuthToken  string `json:"twilio_auth_token"`
	TwilioFrom       string `json:"twilio_from"`

	WebhookSecret string `json:"webhook_secret"`
	SMTPUser      string `json:"smtp_user"`
	SMTPPassword  string `json:"smtp_password"`
}

const settingsName = "simulate.json"

// Init makes, in dir, the keys, certificates and secrets that are missing and
// returns all of them. Calling it again changes nothing. The settings are
// written last: a crash before that leaves files that the next call replaces.
func Init(dir string, cfg Config) (Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, fmt.Errorf("make the simulator's folder: %w", err)
	}
	files, err := readSettings(dir)
	if errors.Is(err, fs.ErrNotExist) {
		files, err = makeFirst(dir)
	}
	if err != nil {
		return Files{}, err
	}
	return files.complete(dir, cfg)
}

// makeFirst makes what every version has had; nothing names it yet.
func makeFirst(dir string) (Files, error) {
	if err := makeCertificates(dir); err != nil {
		return Files{}, err
	}
	signing, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Files{}, fmt.Errorf("make the APNs key: %w", err)
	}
	return Files{
		CAFile: "ca.pem", CertFile: "server.pem", KeyFile: "server-key.pem",
		APNsKeyFile: "AuthKey.p8", APNsKeyID: "SIMKEY0001", APNsTeamID: "SIMTEAM001", APNsTopic: "com.example.shop",
		WebhookSecret: "whsec_" + base64.StdEncoding.EncodeToString(randomBytes(32)),
		SMTPUser:      "notifier", SMTPPassword: base64.RawURLEncoding.EncodeToString(randomBytes(18)),
	}, writeKey(filepath.Join(dir, "AuthKey.p8"), signing)
}

// complete makes what the folder lacks, a new one or that of an older version.
func (f Files) complete(dir string, cfg Config) (Files, error) {
	had := f
	if f.WebPushSeed == "" {
		if err := f.makeWebPush(); err != nil {
			return Files{}, err
		}
	}
	if f.FCMCredentialsFile == "" {
		if err := makeAccount(dir, cfg.FCM); err != nil {
			return Files{}, err
		}
		f.FCMCredentialsFile, f.FCMProject = accountName, fcmProject
	}
	if f.TwilioAccountSID == "" {
		f.makeTwilio()
	}
	if f == had {
		return readFiles(dir)
	}
	return f.save(dir)
}

// save writes the settings, whose names are relative, and reads them back.
func (f Files) save(dir string) (Files, error) {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return Files{}, fmt.Errorf("encode the simulator's settings: %w", err)
	}
	if err := writeFile(filepath.Join(dir, settingsName), append(b, '\n')); err != nil {
		return Files{}, err
	}
	return readFiles(dir)
}

// readFiles reads the settings; names in them are relative to dir, so that the
// folder can be moved.
func readFiles(dir string) (Files, error) {
	f, err := readSettings(dir)
	if err != nil {
		return Files{}, err
	}
	for _, name := range []*string{&f.CAFile, &f.CertFile, &f.KeyFile, &f.APNsKeyFile, &f.FCMCredentialsFile} {
		*name = filepath.Join(dir, *name)
	}
	return f, nil
}

func readSettings(dir string) (Files, error) {
	b, err := os.ReadFile(filepath.Join(dir, settingsName))
	if err != nil {
		return Files{}, fmt.Errorf("read the simulator's settings: %w", err)
	}
	var f Files
	if err := json.Unmarshal(b, &f); err != nil {
		return Files{}, fmt.Errorf("read the simulator's settings %q: %w", filepath.Join(dir, settingsName), err)
	}
	return f, nil
}

// makeWebPush makes the VAPID key and the seed.
func (f *Files) makeWebPush() error {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make the VAPID key: %w", err)
	}
	f.VAPIDPrivateKey = base64.RawURLEncoding.EncodeToString(key.Bytes())
	f.VAPIDPublicKey = base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())
	f.WebPushSeed = base64.RawURLEncoding.EncodeToString(randomBytes(32))
	return nil
}

// makeTwilio makes the account of the simulated Twilio.
func (f *Files) makeTwilio() {
	f.TwilioAccountSID, f.TwilioAuthToken = "AC"+hex.EncodeToString(randomBytes(16)), hex.EncodeToString(randomBytes(16))
	f.TwilioFrom = twilioFrom
}

func (f Files) apnsPublicKey() (*ecdsa.PublicKey, error) {
	b, err := os.ReadFile(f.APNsKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the APNs key: %w", err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("read the APNs key %q: it is not PEM", f.APNsKeyFile)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the APNs key %q: %w", f.APNsKeyFile, err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read the APNs key %q: it is a %T, not an ECDSA key", f.APNsKeyFile, key)
	}
	return &private.PublicKey, nil
}

// makeCertificates writes an authority and a server certificate of it. The
// authority's key is thrown away: nothing else will ever be signed.
func makeCertificates(dir string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the authority's key: %w", err)
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(randomBytes(16)), Subject: pkix.Name{CommonName: "notifier simulated providers"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("make the authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the server's key: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(randomBytes(16)), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("make the server's certificate: %w", err)
	}
	return errors.Join(
		writeFile(filepath.Join(dir, "ca.pem"), pemOf("CERTIFICATE", caDER)),
		writeFile(filepath.Join(dir, "server.pem"), pemOf("CERTIFICATE", der)),
		writeKey(filepath.Join(dir, "server-key.pem"), key))
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key %q: %w", path, err)
	}
	return writeFile(path, pemOf("PRIVATE KEY", der))
}

func writeFile(path string, b []byte) error {
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	return nil
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails: it ends the process instead
	return b
}
