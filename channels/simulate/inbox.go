package simulate

import "time"

// Message is what a person sees: one notification on a device, one mail in a
// mailbox, or one call at a webhook receiver.
type Message struct {
	Channel    string `json:"channel"`
	Address    string `json:"address"`
	CollapseID string `json:"collapse_id,omitempty"`
	Title      string `json:"title,omitempty"`
	// Delivery, Fence, EffectKey and BodyHash are those of the newest effect shown.
	Delivery  string    `json:"delivery"`
	Fence     int64     `json:"fence"`
	EffectKey string    `json:"effect_key"`
	BodyHash  string    `json:"body_hash"`
	Time      time.Time `json:"time"`
	// Alerts is how many effects went into it: more than one means that the
	// device rang again and shows one notification.
	Alerts int `json:"alerts"`
}

// Collapse tells what is shown after the effects in entries: a push replaces
// the earlier one of the same token and collapse id, in its place, as does a Web
// Push message whose Topic is the earlier one's: no browser has fetched it yet.
// A mailbox and a webhook receiver keep everything.
func Collapse(entries []Entry) []Message {
	type shown struct{ channel, address, id string }
	at := map[shown]int{}
	var inbox []Message
	for i := range entries {
		e := &entries[i]
		if !e.TookEffect {
			continue
		}
		m := Message{Channel: e.Channel, Address: e.Address, CollapseID: e.CollapseID, Title: e.Title, Delivery: e.Delivery,
			Fence: e.Fence, EffectKey: e.EffectKey, BodyHash: e.BodyHash, Time: e.Time, Alerts: 1}
		key := shown{e.Channel, e.Address, e.CollapseID}
		collapses := (e.Channel == channelAPNs || e.Channel == channelFCM || e.Channel == channelWebPush) && e.CollapseID != ""
		if j, ok := at[key]; ok && collapses {
			m.Alerts += inbox[j].Alerts
			inbox[j] = m
			continue
		}
		if collapses {
			at[key] = len(inbox)
		}
		inbox = append(inbox, m)
	}
	return inbox
}
