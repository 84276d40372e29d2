package simulate

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// serviceAccount is a service account's key file as Google hands it out.
type serviceAccount struct {
	Type         string `json:"type"`
	ProjectID    string `json:"project_id"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	ClientEmail  string `json:"client_email"`
	ClientID     string `json:"client_id"`
	TokenURI     string `json:"token_uri"`
}

const (
	accountName = "service-account.json"
	fcmProject  = "simulated-shop"
	// accountKeyBits is half of what Google gives: tests make many of these
	// keys, and this one opens nothing but the simulator that made it.
	accountKeyBits = 1024
)

// makeAccount writes a service account with a key of its own, whose tokens
// come from the simulator at addr.
func makeAccount(dir, addr string) error {
	if addr == "" {
		addr = DefaultFCM
	}
	key, err := rsa.GenerateKey(rand.Reader, accountKeyBits)
	if err != nil {
		return fmt.Errorf("make the service account's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the service account's key: %w", err)
	}
	return serviceAccount{
		Type: "service_account", ProjectID: fcmProject, PrivateKeyID: hex.EncodeToString(randomBytes(20)),
		PrivateKey: string(pemOf("PRIVATE KEY", der)), ClientEmail: "notifier@" + fcmProject + ".iam.gserviceaccount.com",
		ClientID: "100000000000000000001", TokenURI: tokenURI(addr),
	}.write(filepath.Join(dir, accountName))
}

func tokenURI(addr string) string { return "https://" + addr + tokenPath }

func (a serviceAccount) write(path string) error {
	b, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the service account: %w", err)
	}
	return writeFile(path, append(b, '\n'))
}

// readAccount reads the service account and points it at the token endpoint
// where it is now, in the file too: the endpoint's port may be any.
func readAccount(path, addr string) (a serviceAccount, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return a, fmt.Errorf("read the service account: %w", err)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("read the service account %q: %w", path, err)
	}
	if a.TokenURI == tokenURI(addr) {
		return a, nil
	}
	a.TokenURI = tokenURI(addr)
	return a, a.write(path)
}

func (a serviceAccount) publicKey() (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(a.PrivateKey))
	if block == nil {
		return nil, fmt.Errorf("read the service account's key: it is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the service account's key: %w", err)
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read the service account's key: it is a %T, not an RSA key", key)
	}
	return &private.PublicKey, nil
}
