package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/apns"
	"github.com/seed-4b260dfd/notifier/channels/email"
	"github.com/seed-4b260dfd/notifier/channels/fcm"
	"github.com/seed-4b260dfd/notifier/channels/sms"
	"github.com/seed-4b260dfd/notifier/channels/webhook"
	"github.com/seed-4b260dfd/notifier/channels/webpush"
	"github.com/seed-4b260dfd/notifier/delivery"
)

// channelAccounts is the part "channels" of the configuration: accounts by
// name. A channel is a field here and a line in wired.
type channelAccounts struct {
	APNs    map[string]apns.Config    `yaml:"apns"`
	FCM     map[string]fcm.Config     `yaml:"fcm"`
	WebPush map[string]webpush.Config `yaml:"webpush"`
	Email   map[string]email.Config   `yaml:"email"`
	SMS     map[string]sms.Config     `yaml:"sms"`
	Webhook map[string]webhook.Config `yaml:"webhook"`
}

// wired is every channel that is built in, with its accounts.
func (c *channelAccounts) wired() []wired {
	return []wired{
		wire(apns.Kind{}, c.APNs, apns.New, func(a apns.Config) channels.AccountConfig { return a.AccountConfig }),
		wire(fcm.Kind{}, c.FCM, fcm.New, func(a fcm.Config) channels.AccountConfig { return a.AccountConfig }),
		wire(webpush.Kind{}, c.WebPush, webpush.New, func(a webpush.Config) channels.AccountConfig { return a.AccountConfig }),
		wire(email.Kind{}, c.Email, email.New, func(a email.Config) channels.AccountConfig { return a.AccountConfig }),
		wire(sms.Kind{}, c.SMS, sms.New, func(a sms.Config) channels.AccountConfig { return a.AccountConfig }),
		wire(webhook.Kind{}, c.Webhook, webhook.New, func(a webhook.Config) channels.AccountConfig { return a.AccountConfig }),
	}
}

// wired is a channel and its accounts, whatever the type of their configuration.
type wired struct {
	kind     channels.Kind
	accounts map[string]account
}

// names returns the names of the accounts, sorted.
func (w wired) names() []string { return slices.Sorted(maps.Keys(w.accounts)) }

type account struct {
	validate func() []*channels.FieldError
	// looks says that the account's provider can be asked what it has.
	looks  bool
	open   func() (channels.Channel, error)
	common channels.AccountConfig
}

func wire[C interface{ Validate() []*channels.FieldError }, S channels.Channel](
	kind channels.Kind, configs map[string]C, open func(C) (S, error), common func(C) channels.AccountConfig,
) wired {
	w := wired{kind: kind, accounts: make(map[string]account, len(configs))}
	for name, c := range configs {
		w.accounts[name] = account{
			validate: c.Validate,
			open:     func() (channels.Channel, error) { return open(c) },
			common:   common(c),
			looks:    looksUp(c),
		}
	}
	return w
}

// looksUp reports whether a configuration says of its account that its provider
// can be asked what became of a message.
func looksUp(c any) bool {
	l, ok := c.(interface{ LooksUp() bool })
	return ok && l.LooksUp()
}

// kinds is what every channel is, by its name.
func (c *channelAccounts) kinds() map[notifier.Channel]channels.Kind {
	kinds := map[notifier.Channel]channels.Kind{}
	for _, w := range c.wired() {
		kinds[w.kind.Channel()] = w.kind
	}
	return kinds
}

// openAccounts opens every account. The function that it returns closes them.
func (c *channelAccounts) openAccounts() (map[notifier.Channel]map[string]delivery.Account, func(), error) {
	var opened []channels.Channel
	closeAll := func() {
		for _, ch := range opened {
			// Idle connections are let go; there is nothing to lose or to report.
			_ = ch.Close()
		}
	}
	all := map[notifier.Channel]map[string]delivery.Account{}
	for _, w := range c.wired() {
		of := map[string]delivery.Account{}
		for _, name := range w.names() {
			ch, err := w.accounts[name].open()
			if err != nil {
				closeAll()
				return nil, nil, fmt.Errorf("open the account %s.%s: %w", w.kind.Channel(), name, err)
			}
			opened = append(opened, ch)
			of[name] = limited(ch, w.accounts[name].common)
		}
		all[w.kind.Channel()] = of
	}
	return all, closeAll, nil
}

// limited is an account with the limits of its configuration.
func limited(ch channels.Channel, c channels.AccountConfig) delivery.Account {
	after, probe := c.Breaker.Terms()
	return delivery.Account{Channel: ch, MaxInFlight: c.MaxInFlight, MaxPerSecond: c.PerSecond(), RetryBudget: c.Budget(),
		Breaker: delivery.Breaker{After: after, Probe: probe}}
}
