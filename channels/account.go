package channels

import (
	"fmt"
	"net/url"
	"time"
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
	// MaxInFlight is how many calls may be under way at once, in each process;
	// zero leaves it to the dispatcher.
	MaxInFlight int `yaml:"max_in_flight"`
	// MaxPerSecond is how many calls a second all processes together may begin;
	// nil: as many as there are.
	MaxPerSecond *float64 `yaml:"max_per_second"`
	// RetryBudget is how many retries there may be for each first attempt; nil:
	// DefaultRetryBudget.
	RetryBudget *float64      `yaml:"retry_budget"`
	Breaker     BreakerConfig `yaml:"breaker"`
}

// BreakerConfig says when calls to a provider that fails are stopped.
type BreakerConfig struct {
	// After is how many attempts in a row have to fail; nil: DefaultBreakerAfter.
	After *int `yaml:"after"`
	// Probe is how often one delivery is let through all the same; nil:
	// DefaultBreakerProbe.
	Probe *time.Duration `yaml:"probe"`
}

// What holds where an account says nothing.
const (
	DefaultRetryBudget  = 0.1
	DefaultBreakerAfter = 5
	DefaultBreakerProbe = 10 * time.Second
)

// The bounds of what an account may say.
const (
	maxPerSecond    = 100_000
	minPerSecond    = 0.01
	maxBreakerAfter = 1000
	minBreakerProbe = 100 * time.Millisecond
	maxBreakerProbe = time.Hour
)

// PerSecond is MaxPerSecond, or zero for no limit.
func (c AccountConfig) PerSecond() float64 {
	if c.MaxPerSecond == nil {
		return 0
	}
	return *c.MaxPerSecond
}

// Budget is RetryBudget or its default.
func (c AccountConfig) Budget() float64 {
	if c.RetryBudget == nil {
		return DefaultRetryBudget
	}
	return *c.RetryBudget
}

// Terms are After and Probe or their defaults.
func (b BreakerConfig) Terms() (after int, probe time.Duration) {
	after, probe = DefaultBreakerAfter, DefaultBreakerProbe
	if b.After != nil {
		after = *b.After
	}
	if b.Probe != nil {
		probe = *b.Probe
	}
	return after, probe
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
	if r := c.MaxPerSecond; r != nil && !(*r >= minPerSecond && *r <= maxPerSecond) {
		wrong = append(wrong, Wrong("max_per_second", "%v is not a rate; allowed is %v to %d calls a second, or nothing for no limit", *r, minPerSecond, maxPerSecond))
	}
	if r := c.RetryBudget; r != nil && !(*r > 0 && *r <= 1) {
		wrong = append(wrong, Wrong("retry_budget", "%v is not a share; allowed is more than 0 and at most 1, such as 0.1: one retry for ten first attempts", *r))
	}
	if n := c.Breaker.After; n != nil && (*n < 1 || *n > maxBreakerAfter) {
		wrong = append(wrong, Wrong("breaker.after", "%d is not a number of attempts; allowed is 1 to %d", *n, maxBreakerAfter))
	}
	if d := c.Breaker.Probe; d != nil && (*d < minBreakerProbe || *d > maxBreakerProbe) {
		wrong = append(wrong, Wrong("breaker.probe", "%s is too short or too long; allowed is %s to %s", *d, minBreakerProbe, maxBreakerProbe))
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
