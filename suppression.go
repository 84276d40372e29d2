package notifier

import (
	"strings"
	"time"
)

// SuppressionCause is why somebody is not to be contacted.
type SuppressionCause string

// The causes of a suppression.
const (
	CauseUnsubscribe SuppressionCause = "unsubscribe"
	CauseStop        SuppressionCause = "stop"
	// CauseInvalidAddress is the provider's word that the address is dead. It
	// holds for what the address was until Suppression.Since, and no longer.
	CauseInvalidAddress SuppressionCause = "invalid_address"
	CauseComplaint      SuppressionCause = "complaint"
	CauseOperator       SuppressionCause = "operator"
)

// SuppressionCauses is every cause.
var SuppressionCauses = [...]SuppressionCause{CauseUnsubscribe, CauseStop, CauseInvalidAddress, CauseComplaint, CauseOperator}

// ByProvider is Suppression.By of what nobody but a provider asked for.
const ByProvider = "provider"

// Suppression is a standing order not to contact a tenant's address, or all
// addresses of a recipient. What it matches ends suppressed, before any call.
type Suppression struct {
	ID     string `json:"id"`
	Tenant string `json:"-"`
	// Address or Recipient is set, never both. Of the address only its Value
	// counts; whoever shows it shows it redacted.
	Address   Address `json:"-"`
	Recipient string  `json:"recipient,omitempty"`
	// Channel and Type narrow it; empty: all.
	Channel Channel          `json:"channel"`
	Type    string           `json:"type"`
	Cause   SuppressionCause `json:"cause"`
	// Evidence is what it rests on, in words: the provider's status, the delivery.
	Evidence string `json:"evidence"`
	// By is who placed it: the name of an API key, or ByProvider.
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Since is as of when the address is known to be dead: the provider's word,
	// or when it was asked. For the other causes it is At.
	Since time.Time `json:"since"`
	// EndedAt is when it was undone; zero while it is in force.
	EndedAt  time.Time `json:"ended_at,omitzero"`
	EndedBy  string    `json:"ended_by,omitempty"`
	EndedWhy string    `json:"ended_why,omitempty"`
}

// Matches reports whether the suppression holds for a delivery. An address that
// was registered after it was known to be dead is another one of the same name.
func (s *Suppression) Matches(d *Delivery) bool {
	if s.Tenant != d.Tenant || s.Channel != "" && s.Channel != d.Lane.Channel || s.Type != "" && s.Type != d.Type {
		return false
	}
	if s.Recipient != "" {
		return s.Recipient == d.Recipient
	}
	return folded(s.Address.Value) == folded(d.Address.Value) &&
		(s.Cause != CauseInvalidAddress || !d.Address.RegisteredAt.After(s.Since))
}

// Subject names whom the suppression is about, as Delivery.Subjects names whom
// a delivery is for: a digest, so that an index on it is narrow and tells nobody.
func (s *Suppression) Subject() string {
	if s.Recipient != "" {
		return recipientSubject(s.Tenant, s.Recipient)
	}
	return addressSubject(s.Tenant, s.Address.Value)
}

// Subjects are the subjects of all suppressions that can match the delivery.
func (d *Delivery) Subjects() [2]string {
	return [2]string{addressSubject(d.Tenant, d.Address.Value), recipientSubject(d.Tenant, d.Recipient)}
}

func addressSubject(tenant, value string) string { return Child(tenant, "address", folded(value)) }

func recipientSubject(tenant, recipient string) string {
	return Child(tenant, "recipient", recipient)
}

// folded is an address as it is compared: no provider of mail that matters tells
// mailboxes apart by case, and who unsubscribed is not to get mail by a capital.
func folded(value string) string {
	if strings.Contains(value, "@") && !strings.Contains(value, "://") {
		return strings.ToLower(value)
	}
	return value
}

// SuppressionFilter says which suppressions in force are listed, the newest
// first. What is empty is any.
type SuppressionFilter struct {
	Tenant string
	// Address and Recipient name whom a suppression is about, whole.
	Address, Recipient string
	Channel            Channel
	Type               string
	Cause              SuppressionCause
	// Before is the id after which the list goes on; empty: from the newest.
	Before string
	Limit  int
}

// Subject is the subject that is asked for; empty: any.
func (f *SuppressionFilter) Subject() string {
	switch {
	case f.Address != "":
		return addressSubject(f.Tenant, f.Address)
	case f.Recipient != "":
		return recipientSubject(f.Tenant, f.Recipient)
	}
	return ""
}

// SuppressionPrefix is how the id of a suppression begins.
const SuppressionPrefix = "sup_"

// SuppressionID makes the id of a suppression from one that NewID has made: like
// that it grows with time.
func SuppressionID(id ID) string {
	return SuppressionPrefix + strings.ToLower(idEncoding.EncodeToString(id[:]))
}
