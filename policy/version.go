package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// canonical is everything that a policy does, in one order.
type canonical struct {
	Type, Order, Route, Unknown, RedisDown, Priority string
	Channels                                         []canonicalChannel
	Data                                             map[string]Datum
	Lease, DedupeWindow, ExpiresAfter, Tombstone     int64
	RetryInitial, RetryMax                           int64
	RetryFactor                                      float64
	MaxAttempts, MaxUnknown                          int
	Caps                                             []Cap
	QuietHours                                       *QuietHours
	Unsubscribe                                      bool
}

type canonicalChannel struct {
	Channel, Account, Template, Collapse string
	SendTimeout, GiveUpAfter             int64
}

// version hashes what the policy does. A default that is written out is the
// same policy as one that is left out.
func (p *Policy) version() string {
	c := canonical{
		Type: p.Type, Order: string(p.Order), Route: string(p.Route), Unknown: string(p.Unknown),
		RedisDown: string(p.RedisDown), Priority: string(p.Priority), Data: p.Data,
		Lease: int64(p.Lease), DedupeWindow: int64(p.DedupeWindow), ExpiresAfter: int64(p.ExpiresAfter), Tombstone: int64(p.Tombstone),
		RetryInitial: int64(p.Retry.Initial), RetryMax: int64(p.Retry.Max), RetryFactor: p.Retry.Factor,
		MaxAttempts: p.Retry.MaxAttempts, MaxUnknown: p.Retry.MaxUnknown,
		Caps: p.Caps, QuietHours: p.QuietHours, Unsubscribe: p.Unsubscribe,
	}
	for _, ch := range p.Channels {
		timeout := ch.SendTimeout
		if timeout == 0 {
			timeout = sendTimeout(ch.Channel)
		}
		c.Channels = append(c.Channels, canonicalChannel{Channel: string(ch.Channel), Account: ch.Account, Template: ch.Template,
			Collapse: ch.Collapse, SendTimeout: int64(timeout), GiveUpAfter: int64(ch.GiveUpAfter)})
	}
	b, err := json.Marshal(c)
	if err != nil {
		// Only a factor that is no number could do this, and strictyaml refuses those.
		panic("policy: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
