package channels

import (
	"fmt"
	"net/url"
)

// AccountConfig is what the configuration of every account may say, whatever
// its channel. Paths in it are ready to be opened.
type AccountConfig struct {
	// Endpoint takes the place of the provider's own address: a simulator, a proxy.
	Endpoint string `yaml:"endpoint"`
	// CAFile holds PEM certificates that are trusted instead of the system's.
	CAFile string `yaml:"ca_file"`
	// AllowPrivate lets the account connect to addresses that are not on the
	// public internet, and without TLS where the channel knows such a thing.
	AllowPrivate bool `yaml:"allow_private"`
	// MaxInFlight is how many calls may be under way at once; zero leaves it
	// to the dispatcher.
	MaxInFlight int `yaml:"max_in_flight"`

	// These are read so that they can be refused by name.
	MaxPerSecond any `yaml:"max_per_second"`
	RetryBudget  any `yaml:"retry_budget"`
	Breaker      any `yaml:"breaker"`
}

// FieldError says what is wrong with one field of an account, and what is allowed.
type FieldError struct {
	// Field is the field's path within the account: "secrets.default[1]".
	Field   string
	Message string
}

// Error returns the field and the message.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Wrong returns a FieldError.
func Wrong(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// Validate returns everything that is wrong with the common fields. Whether
// files can be read is for New to find out.
func (c AccountConfig) Validate() []*FieldError {
	var wrong []*FieldError
	if c.MaxInFlight < 0 {
		wrong = append(wrong, Wrong("max_in_flight", "%d is negative; allowed is 1 or more, or nothing for the default", c.MaxInFlight))
	}
	for _, f := range []struct {
		name  string
		value any
	}{{"max_per_second", c.MaxPerSecond}, {"retry_budget", c.RetryBudget}, {"breaker", c.Breaker}} {
		if f.value != nil {
			wrong = append(wrong, Wrong(f.name, "is not supported yet; leave it out"))
		}
	}
	return wrong
}

// CheckEndpoint returns what is wrong with Endpoint as the base of an HTTP
// API, or nil. Without TLS it needs allowPlain and AllowPrivate.
func (c AccountConfig) CheckEndpoint(allowPlain bool) *FieldError {
	if c.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	plain := err == nil && u.Scheme == "http"
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && !plain):
		return Wrong("endpoint", "%q is not a URL; allowed is https://host:port", c.Endpoint)
	case plain && !allowPlain:
		return Wrong("endpoint", "%q is without TLS; this channel needs https", c.Endpoint)
	case plain && !c.AllowPrivate:
		return Wrong("endpoint", "%q is without TLS; that needs allow_private: true", c.Endpoint)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return Wrong("endpoint", "%q has a user, a query or a fragment; allowed is https://host:port/path", c.Endpoint)
	}
	return nil
}
