package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// faultJSON is a Fault on the wire: the delay is a Go duration, such as "2s".
type faultJSON struct {
	Channel     string    `json:"channel,omitempty"`
	Address     string    `json:"address,omitempty"`
	Delivery    string    `json:"delivery,omitempty"`
	Type        string    `json:"type,omitempty"`
	Times       int       `json:"times,omitempty"`
	Probability float64   `json:"probability,omitempty"`
	Kind        FaultKind `json:"kind"`
	Delay       string    `json:"delay,omitempty"`
	Status      int       `json:"status,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	RetryAfter  string    `json:"retry_after,omitempty"`
	HTML        bool      `json:"html,omitempty"`
	Code        string    `json:"code,omitempty"`
	Stage       string    `json:"stage,omitempty"`
	Effect      *bool     `json:"effect,omitempty"`
}

// MarshalJSON writes what ReadFaults reads.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := faultJSON{f.Channel, f.Address, f.Delivery, f.Type, f.Times, f.Probability, f.Kind, "",
		f.Status, f.Reason, f.RetryAfter, f.HTML, f.Code, f.Stage, f.Effect}
	if f.Delay != 0 {
		w.Delay = f.Delay.String()
	}
	return json.Marshal(w)
}

// ReadFaults reads a JSON array of faults and checks them.
func ReadFaults(r io.Reader) ([]Fault, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var wire []faultJSON
	if err := d.Decode(&wire); err != nil {
		return nil, fmt.Errorf("read the faults: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("read the faults: there is more after the array")
	}
	list := make([]Fault, len(wire))
	for i, w := range wire {
		list[i] = Fault{w.Channel, w.Address, w.Delivery, w.Type, w.Times, w.Probability, w.Kind, 0,
			w.Status, w.Reason, w.RetryAfter, w.HTML, w.Code, w.Stage, w.Effect}
		if w.Delay != "" {
			d, err := time.ParseDuration(w.Delay)
			if err != nil {
				return nil, fmt.Errorf("fault %d: delay %q: a duration such as 2s is needed", i, w.Delay)
			}
			list[i].Delay = d
		}
	}
	return list, CheckFaults(list)
}
