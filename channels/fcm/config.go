package fcm

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"github.com/seed-4b260dfd/notifier/channels"
)

// scope is what the access tokens are asked for: sending, and nothing else.
// https://firebase.google.com/docs/cloud-messaging/send/v1-api
const scope = "https://www.googleapis.com/auth/firebase.messaging"

// Config is one account: one service account of one Firebase project.
type Config struct {
	channels.AccountConfig `yaml:",inline"`

	// CredentialsFile is the JSON key file of a service account.
	CredentialsFile string `yaml:"credentials_file"`
	// ProjectID is the Firebase project; empty: the one that the file names.
	ProjectID string `yaml:"project_id"`
}

// projectID is what Google calls a project, with the domain that old ones have.
// https://cloud.google.com/resource-manager/docs/creating-managing-projects
var projectID = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)

// Validate returns everything that is wrong with the fields.
func (c Config) Validate() []*channels.FieldError {
	wrong := c.AccountConfig.Validate()
	if e := c.CheckEndpoint(false); e != nil {
		wrong = append(wrong, e)
	}
	if c.CredentialsFile == "" {
		wrong = append(wrong, channels.Wrong("credentials_file", "is required: the path of a service account's JSON key file"))
	}
	if c.ProjectID != "" && !projectID.MatchString(c.ProjectID) {
		wrong = append(wrong, channels.Wrong("project_id", "%q is not a project id; allowed is one such as my-shop-1a2b3, or nothing for the key file's own", c.ProjectID))
	}
	return wrong
}

// credentials is what a key file holds for us.
type credentials struct {
	project string
	token   *jwt.Config
}

// credentials reads the key file. No error quotes it.
func (c Config) credentials() (*credentials, error) {
	b, err := os.ReadFile(c.CredentialsFile)
	if err != nil {
		return nil, fmt.Errorf("read the credentials: %w", err)
	}
	wrong := func(format string, args ...any) (*credentials, error) {
		return nil, fmt.Errorf("read the credentials %q: %s", c.CredentialsFile, fmt.Sprintf(format, args...))
	}
	var file struct {
		Type        string `json:"type"`
		ProjectID   string `json:"project_id"`
		ClientEmail string `json:"client_email"`
	}
	if json.Unmarshal(b, &file) != nil {
		return wrong("it is not a JSON object")
	}
	if file.Type != "service_account" {
		return wrong("its type is %q; a service account's key file is needed: type service_account", file.Type)
	}
	if file.ClientEmail == "" {
		return wrong("it holds no client_email")
	}
	got := &credentials{project: c.ProjectID}
	if got.project == "" {
		got.project = file.ProjectID
	}
	if !projectID.MatchString(got.project) {
		return wrong("its project_id %q is not a project id; set project_id", got.project)
	}
	if got.token, err = google.JWTConfigFromJSON(b, scope); err != nil {
		return wrong("it cannot be read as a service account's key file")
	}
	if err := checkKey(got.token.PrivateKey); err != nil {
		return wrong("its private_key %v", err)
	}
	if err := c.checkTokenURI(got.token.TokenURL); err != nil {
		return wrong("its token_uri %v", err)
	}
	return got, nil
}

// checkKey makes sure at the start that tokens can be signed.
func checkKey(b []byte) error {
	block, _ := pem.Decode(b)
	if block == nil {
		return errors.New("is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	if err != nil {
		return errors.New("is not a private key")
	}
	if _, ok := key.(*rsa.PrivateKey); !ok {
		return fmt.Errorf("is a %T; Google signs with RSA", key)
	}
	return nil
}

// checkTokenURI holds the place that is shown the signed assertion to what an
// endpoint is held to.
func (c Config) checkTokenURI(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return errors.New("is not a URL")
	case u.Scheme == "http" && !c.AllowPrivate:
		return errors.New("is without TLS; that needs allow_private: true")
	}
	return nil
}

// base is where the API is, up to its version; empty leaves it to the SDK.
func (c Config) base() string {
	if c.Endpoint == "" {
		return ""
	}
	return strings.TrimSuffix(c.Endpoint, "/") + "/v1"
}
