package policy

import (
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// file is a policy as it is written.
type file struct {
	Order        notifier.Order         `yaml:"order"`
	Description  string                 `yaml:"description"`
	Channels     []fileChannel          `yaml:"channels"`
	Route        Route                  `yaml:"route"`
	Data         map[string]Datum       `yaml:"data"`
	Lease        time.Duration          `yaml:"lease"`
	DedupeWindow time.Duration          `yaml:"dedupe_window"`
	ExpiresAfter time.Duration          `yaml:"expires_after"`
	Unknown      notifier.UnknownRule   `yaml:"unknown"`
	RedisDown    notifier.RedisDownRule `yaml:"redis_down"`
	Tombstone    time.Duration          `yaml:"tombstone"`
	Retry        fileRetry              `yaml:"retry"`
	Caps         []fileCap              `yaml:"caps"`
	QuietHours   *QuietHours            `yaml:"quiet_hours"`
	Priority     notifier.Priority      `yaml:"priority"`
	Unsubscribe  bool                   `yaml:"unsubscribe"`
}

type fileChannel struct {
	Channel     notifier.Channel `yaml:"channel"`
	Account     string           `yaml:"account"`
	Template    string           `yaml:"template"`
	Collapse    strictyaml.Text  `yaml:"collapse"`
	SendTimeout time.Duration    `yaml:"send_timeout"`
	GiveUpAfter time.Duration    `yaml:"give_up_after"`
}

type fileRetry struct {
	Initial     time.Duration `yaml:"initial"`
	Factor      float64       `yaml:"factor"`
	Max         time.Duration `yaml:"max"`
	MaxAttempts int           `yaml:"max_attempts"`
	MaxUnknown  int           `yaml:"max_unknown"`
}

type fileCap struct {
	Name   string             `yaml:"name"`
	Per    []string           `yaml:"per"`
	On     []notifier.Channel `yaml:"on"`
	Limit  int                `yaml:"limit"`
	Window time.Duration      `yaml:"window"`
	Then   notifier.CapRule   `yaml:"then"`
}

// Defaults of a type that says nothing.
const (
	defaultLease        = 2 * time.Minute
	defaultDedupeWindow = 168 * time.Hour
	defaultExpiry       = 24 * time.Hour
	defaultTombstone    = 15 * time.Minute
	defaultMaxUnknown   = 5
	// Mail and text messages show every repeat; they are given fewer.
	defaultMaxUnknownShown = 3
)

func builtIn() file {
	return file{
		Route:        RouteAll,
		Lease:        defaultLease,
		DedupeWindow: defaultDedupeWindow,
		Tombstone:    defaultTombstone,
		Retry:        fileRetry{Initial: 5 * time.Second, Factor: 4, Max: time.Hour, MaxAttempts: 8},
		Priority:     notifier.PriorityNormal,
	}
}

// sendTimeout is how long one call may take unless a policy says otherwise.
func sendTimeout(ch notifier.Channel) time.Duration {
	switch ch {
	case notifier.ChannelAPNs, notifier.ChannelWebPush:
		return 20 * time.Second
	case notifier.ChannelFCM, notifier.ChannelSMS, notifier.ChannelWebhook:
		return 30 * time.Second
	case notifier.ChannelEmail:
		return 12 * time.Minute
	default:
		return 0
	}
}

// resolve turns what is written into what holds.
func (p *Policy) resolve(f *file) {
	p.Order, p.Description, p.Route, p.RedisDown = f.Order, f.Description, f.Route, f.RedisDown
	p.Lease, p.DedupeWindow, p.ExpiresAfter, p.Tombstone = f.Lease, f.DedupeWindow, f.ExpiresAfter, f.Tombstone
	p.Unknown, p.QuietHours, p.Priority, p.Unsubscribe = f.Unknown, f.QuietHours, f.Priority, f.Unsubscribe
	p.Retry = notifier.Retry(f.Retry)
	p.Data = make(map[string]Datum, len(f.Data))
	for name, d := range f.Data {
		d.Secret = d.Secret || d.Code
		p.Data[name] = d
	}
	for _, c := range f.Channels {
		ch := Channel{Channel: c.Channel, Account: c.Account, Template: c.Template, Collapse: c.Collapse.Value,
			SendTimeout: c.SendTimeout, GiveUpAfter: c.GiveUpAfter}
		if ch.Template == "" {
			ch.Template = p.Type
		}
		p.Channels = append(p.Channels, ch)
	}
	for _, c := range f.Caps {
		p.Caps = append(p.Caps, newCap(c))
	}
	p.resolveByOrder()
}

// resolveByOrder fills what depends on the order. Each default fails in the
// direction that the order has chosen.
func (p *Policy) resolveByOrder() {
	unknown, down, expiry := notifier.UnknownRule(""), notifier.RedisDownRule(""), time.Duration(0)
	switch p.Order {
	case notifier.OrderClaimFirst:
		unknown, down, expiry = notifier.UnknownStop, notifier.RedisDownWait, defaultExpiry
	case notifier.OrderSendFirst:
		unknown, down = notifier.UnknownResend, notifier.RedisDownProceed
	}
	if p.Unknown == "" {
		p.Unknown = unknown
	}
	if p.RedisDown == "" {
		p.RedisDown = down
	}
	if p.ExpiresAfter == 0 {
		p.ExpiresAfter = expiry
	}
}
