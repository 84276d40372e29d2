package sms

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/seed-4b260dfd/notifier/channels"
)

const (
	twilio     = "twilio"
	twilioHost = "https://api.twilio.com"
	apiVersion = "/2010-04-01"
)

// Config is one account at the provider, with one sender.
type Config struct {
	channels.AccountConfig `yaml:",inline"`

	// Provider is twilio.
	Provider string `yaml:"provider"`
	// AccountSID and AuthToken are the account's, or a subaccount's. The token
	// also signs what the provider calls us with.
	AccountSID string `yaml:"account_sid"`
	AuthToken  string `yaml:"auth_token"`
	// From is who sends: a number in the form of E.164, a short code, an
	// alphanumeric sender, or the SID of a messaging service, MG….
	From string `yaml:"from"`

	// ReceiptURL is the public URL to which the provider reports what became
	// of a message, without a query; the wiring sets it. Empty: nowhere.
	ReceiptURL string `yaml:"-"`
}

var (
	accountSID = regexp.MustCompile(`^AC[0-9a-fA-F]{32}$`)
	serviceSID = regexp.MustCompile(`^MG[0-9a-fA-F]{32}$`)
	shortCode  = regexp.MustCompile(`^[0-9]{3,8}$`)
	// https://www.twilio.com/docs/messaging/api/alphasender-resource
	alphaSender = regexp.MustCompile(`^[A-Za-z0-9 +_&-]{1,11}$`)
	letter      = regexp.MustCompile(`[A-Za-z]`)
	authToken   = regexp.MustCompile(`^[!-~]{1,128}$`)
)

// LooksUp reports that the provider can be asked what it has.
func (Config) LooksUp() bool { return true }

// Validate returns everything that is wrong with the fields. No message holds
// the token.
func (c Config) Validate() []*channels.FieldError {
	wrong := c.AccountConfig.Validate()
	if e := c.CheckEndpoint(true); e != nil {
		wrong = append(wrong, e)
	}
	if u, err := url.Parse(c.Endpoint); err == nil && strings.Trim(u.Path, "/") != "" {
		wrong = append(wrong, channels.Wrong("endpoint", "%q has a path; allowed is https://host:port, as the path is the API's own", c.Endpoint))
	}
	if c.Provider != twilio {
		wrong = append(wrong, channels.Wrong("provider", "%q is not a provider; allowed is twilio", c.Provider))
	}
	if !accountSID.MatchString(c.AccountSID) {
		wrong = append(wrong, channels.Wrong("account_sid", "%q is not an account SID; allowed is AC and 32 hexadecimal digits", c.AccountSID))
	}
	switch {
	case c.AuthToken == "":
		wrong = append(wrong, channels.Wrong("auth_token", "is required: the account's Auth Token"))
	case !authToken.MatchString(c.AuthToken):
		wrong = append(wrong, channels.Wrong("auth_token", "has a character that no Auth Token has, or is too long; allowed are 32 hexadecimal digits"))
	}
	if !c.namesSender() {
		wrong = append(wrong, channels.Wrong("from", "%q is not a sender; allowed are a number such as +15555550100, a short code, "+
			"the SID of a messaging service (MG and 32 hexadecimal digits), or up to 11 of A-Z, a-z, 0-9, space, + - _ & with a letter among them", c.From))
	}
	return wrong
}

func (c Config) namesSender() bool {
	return number.MatchString(c.From) || shortCode.MatchString(c.From) || serviceSID.MatchString(c.From) ||
		alphaSender.MatchString(c.From) && letter.MatchString(c.From) && strings.TrimSpace(c.From) == c.From
}

// resource is the URL of the account's own resource.
func (c Config) resource() string {
	host := twilioHost
	if c.Endpoint != "" {
		host = strings.TrimSuffix(c.Endpoint, "/")
	}
	return host + apiVersion + "/Accounts/" + c.AccountSID
}
