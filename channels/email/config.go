package email

import (
	"net"
	"net/netip"
	"net/url"

	"github.com/seed-4b260dfd/notifier/channels"
)

// Config is one account: the server that takes our mail. The server is the
// operator's own choice, so it may be in a private network whether or not
// allow_private is set.
type Config struct {
	channels.AccountConfig `yaml:",inline"`

	// SMTP is smtp://user:password@host:port; without a user there is no AUTH.
	// The port is 587, with implicit TLS 465, unless it is given. Endpoint, of
	// the form smtp://host:port, takes the place of host and port.
	SMTP string `yaml:"smtp"`
	// TLS is starttls (required; the default), implicit or none.
	TLS string `yaml:"tls"`
	// From is the sender: "Shop <no-reply@example.com>".
	From string `yaml:"from"`
}

// The values of Config.TLS.
const (
	tlsStart    = "starttls"
	tlsImplicit = "implicit"
	tlsNone     = "none"
)

// Validate returns everything that is wrong with the fields. No message holds
// the password.
func (c Config) Validate() []*channels.FieldError {
	wrong := c.AccountConfig.Validate()
	_, bad := c.server()
	wrong = append(wrong, bad...)
	switch c.TLS {
	case "", tlsStart, tlsImplicit, tlsNone:
	default:
		wrong = append(wrong, channels.Wrong("tls", "%q is not known; allowed are starttls, implicit, none", c.TLS))
	}
	if c.From == "" {
		wrong = append(wrong, channels.Wrong("from", "is required: Shop <no-reply@example.com>"))
	} else if _, err := parseMailbox(c.From); err != nil {
		wrong = append(wrong, channels.Wrong("from", "%v", err))
	}
	return wrong
}

// server is where and as whom to log in.
type server struct {
	host, addr     string // addr is host:port
	user, password string
	tls            string
}

func (c Config) server() (server, []*channels.FieldError) {
	s := server{tls: c.TLS}
	if s.tls == "" {
		s.tls = tlsStart
	}
	const want = "is not of the form smtp://user:password@host:587"
	u, err := url.Parse(c.SMTP)
	switch {
	case c.SMTP == "":
		return s, []*channels.FieldError{channels.Wrong("smtp", "is required: smtp://user:password@host:587")}
	case err != nil || !isServerURL(u):
		return s, []*channels.FieldError{channels.Wrong("smtp", want)}
	}
	s.user = u.User.Username()
	s.password, _ = u.User.Password()
	if c.Endpoint != "" {
		e, err := url.Parse(c.Endpoint)
		if err != nil || !isServerURL(e) || e.User != nil {
			return s, []*channels.FieldError{channels.Wrong("endpoint", "is not of the form smtp://host:port")}
		}
		u = e
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{tlsImplicit: "465"}[s.tls]
	}
	if port == "" {
		port = "587"
	}
	s.host, s.addr = u.Hostname(), net.JoinHostPort(u.Hostname(), port)
	if s.tls == tlsNone && s.user != "" && !isLoopback(s.host) {
		return s, []*channels.FieldError{channels.Wrong("tls", "none would send the password in the clear to %s; allowed are starttls, implicit", s.host)}
	}
	return s, nil
}

func isServerURL(u *url.URL) bool {
	return u.Scheme == "smtp" && u.Hostname() != "" && u.Opaque == "" && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
