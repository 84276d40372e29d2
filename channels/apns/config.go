package apns

import (
	"crypto/elliptic"
	"fmt"
	"regexp"
	"strings"

	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/token"

	"github.com/seed-4b260dfd/notifier/channels"
)

// The environments. A device token belongs to one of them.
const (
	production = "production"
	sandbox    = "sandbox"
)

// Config is one account: one key of one team, for one app.
type Config struct {
	channels.AccountConfig `yaml:",inline"`

	// KeyFile is the .p8 file of the authentication key.
	KeyFile string `yaml:"key_file"`
	KeyID   string `yaml:"key_id"`
	TeamID  string `yaml:"team_id"`
	// Topic is the app's bundle id.
	Topic string `yaml:"topic"`
	// Environment is production or sandbox.
	Environment string `yaml:"environment"`
}

// Validate returns everything that is wrong with the fields.
func (c Config) Validate() []*channels.FieldError {
	wrong := c.AccountConfig.Validate()
	if e := c.CheckEndpoint(false); e != nil {
		wrong = append(wrong, e)
	}
	if c.KeyFile == "" {
		wrong = append(wrong, channels.Wrong("key_file", "is required: the path of the AuthKey .p8 file"))
	}
	// Key and team ids have ten characters.
	// https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
	id := regexp.MustCompile(`^[A-Z0-9]{10}$`)
	if !id.MatchString(c.KeyID) {
		wrong = append(wrong, channels.Wrong("key_id", "%q is not a key id; allowed are ten characters of A-Z and 0-9", c.KeyID))
	}
	if !id.MatchString(c.TeamID) {
		wrong = append(wrong, channels.Wrong("team_id", "%q is not a team id; allowed are ten characters of A-Z and 0-9", c.TeamID))
	}
	if c.Topic == "" || strings.TrimFunc(c.Topic, isVisible) != "" {
		wrong = append(wrong, channels.Wrong("topic", "%q is not a bundle id such as com.example.app", c.Topic))
	}
	if c.Environment != production && c.Environment != sandbox {
		wrong = append(wrong, channels.Wrong("environment", "%q is neither production nor sandbox", c.Environment))
	}
	return wrong
}

func (c Config) host() string {
	switch {
	case c.Endpoint != "":
		return strings.TrimSuffix(c.Endpoint, "/")
	case c.Environment == sandbox:
		return apns2.HostDevelopment
	default:
		return apns2.HostProduction
	}
}

// key reads the key file.
func (c Config) key() (*token.Token, error) {
	key, err := token.AuthKeyFromFile(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key file %q: %w", c.KeyFile, err)
	}
	if key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("read the key file %q: its curve is %s; APNs takes P-256", c.KeyFile, key.Params().Name)
	}
	return &token.Token{AuthKey: key, KeyID: c.KeyID, TeamID: c.TeamID}, nil
}

func isVisible(r rune) bool { return r > 0x20 && r < 0x7f }
