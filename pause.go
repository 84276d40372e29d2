package notifier

import (
	"strings"
	"time"
)

// PauseCause is why a pause was placed.
type PauseCause string

// The causes of a pause.
const (
	// PauseOperator is a person's.
	PauseOperator PauseCause = "operator"
	// PauseRewound is the ledger's own: it found itself older than what it had
	// acknowledged before, and does not know what has been sent since.
	PauseRewound PauseCause = "ledger_rewound"
)

// PauseCauses is every cause.
var PauseCauses = [...]PauseCause{PauseOperator, PauseRewound}

// Pause is a durable order to start no new attempts of what it matches. What
// is on the wire ends, acceptance goes on, and expiry does not wait for it. An
// empty selector matches everything.
type Pause struct {
	ID      string  `json:"id"`
	Type    string  `json:"type"`
	Channel Channel `json:"channel"`
	Account string  `json:"account"`
	Tenant  string  `json:"tenant"`
	// Order, which no person sets, stands for all types of one order.
	Order Order      `json:"order,omitempty"`
	Cause PauseCause `json:"cause"`
	Why   string     `json:"why"`
	// By is who placed it: the name of an API key.
	By    string    `json:"by"`
	Since time.Time `json:"since"`
	// Until is when it ends by itself; zero: when it is resumed.
	Until time.Time `json:"until,omitzero"`
	// EndedAt is when it ended; zero while it is in force. EndedBy and EndedWhy
	// are who resumed it, as By, and why: empty for one that ended by itself.
	EndedAt  time.Time `json:"ended_at,omitzero"`
	EndedBy  string    `json:"ended_by,omitempty"`
	EndedWhy string    `json:"ended_why,omitempty"`
}

// Matches reports whether the pause holds for a delivery.
func (p *Pause) Matches(d *Delivery) bool {
	return (p.Type == "" || p.Type == d.Type) &&
		(p.Channel == "" || p.Channel == d.Lane.Channel) &&
		(p.Account == "" || p.Account == d.Lane.Account) &&
		(p.Tenant == "" || p.Tenant == d.Tenant) &&
		(p.Order == "" || p.Order == d.Order)
}

// Covers reports whether the pause holds for all deliveries of an account,
// whatever they are.
func (p *Pause) Covers(channel Channel, account string) bool {
	return p.Type == "" && p.Tenant == "" && p.Order == "" &&
		(p.Channel == "" || p.Channel == channel) && (p.Account == "" || p.Account == account)
}

// Selects reports whether the pause has a selector at all. One that has none
// holds for everything.
func (p *Pause) Selects() bool {
	return p.Type != "" || p.Channel != "" || p.Account != "" || p.Tenant != "" || p.Order != ""
}

// Same reports whether two pauses are the same order: selectors, cause and end.
func (p *Pause) Same(o *Pause) bool {
	return p.Type == o.Type && p.Channel == o.Channel && p.Account == o.Account && p.Tenant == o.Tenant &&
		p.Order == o.Order && p.Cause == o.Cause && p.Until.Equal(o.Until)
}

// PausePrefix is how the id of a pause begins.
const PausePrefix = "pau_"

// PauseID makes the id of a pause from one that NewID has made.
func PauseID(id ID) string {
	return PausePrefix + strings.ToLower(idEncoding.EncodeToString(id[:]))
}
