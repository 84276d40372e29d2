package delivery

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-4b260dfd/notifier"
)

// covered are the fields that say what is said to whom: another value under
// the same key is another request. The rest say where, when and how, which the
// first copy decides.
var covered = [...]string{"type", "recipient", "data", "entity", "version"}

// part is one field of a request: text as it is, or a value with its JSON.
type part struct {
	name  string
	text  string
	value any
}

// parts are the fields of a request that say something, in a fixed order.
func parts(req *notifier.Request) []part {
	all := make([]part, 0, 10)
	text := func(name, s string) {
		if s != "" {
			all = append(all, part{name: name, text: s})
		}
	}
	instant := func(name string, t time.Time) {
		if !t.IsZero() {
			text(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	text("type", req.Type)
	text("recipient", req.Recipient)
	if len(req.Data) > 0 {
		all = append(all, part{name: "data", value: req.Data})
	}
	text("entity", req.Entity)
	if req.Version != 0 {
		text("version", strconv.FormatInt(req.Version, 10))
	}
	if len(req.To) > 0 {
		all = append(all, part{name: "to", value: req.To})
	}
	text("locale", req.Locale)
	text("time_zone", req.TimeZone)
	instant("send_at", req.SendAt)
	instant("expires_at", req.ExpiresAt)
	return all
}

// fingerprint hashes what of a request must be equal in every copy, JSON in
// canonical form (RFC 8785, whole numbers kept exact), and digests each field so
// that a difference can be named. Each part is hashed with its name and length,
// so that no two requests spell the same.
func fingerprint(req *notifier.Request) ([32]byte, map[string]string, error) {
	digests := make(map[string]string, 10)
	var whole []byte
	for _, p := range parts(req) {
		said := []byte(p.text)
		if p.value != nil {
			var err error
			if said, err = canonicalJSON(p.value); err != nil {
				return [32]byte{}, nil, &notifier.Error{Code: notifier.CodeInvalid, Field: p.name, Message: err.Error()}
			}
		}
		sum := sha256.Sum256(said)
		digests[p.name] = hex.EncodeToString(sum[:8])
		if slices.Contains(covered[:], p.name) {
			whole = append(whole, p.name...)
			whole = binary.BigEndian.AppendUint64(whole, uint64(len(said)))
			whole = append(whole, said...)
		}
	}
	return sha256.Sum256(whole), digests, nil
}

// canonicalJSON is the one spelling of a value: keys sorted, no spaces, floats
// in their shortest form.
func canonicalJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	c := jsontext.Value(b)
	if err := c.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, fmt.Errorf("the value is not JSON: %w", err)
	}
	return c, nil
}

// compare tells two copies of a key apart: differs names the covered fields
// that are not the same, ignored the others.
func compare(now, first map[string]string) (differs, ignored []string) {
	names := map[string]bool{}
	for _, m := range []map[string]string{now, first} {
		for name := range m {
			names[name] = true
		}
	}
	for name := range names {
		switch {
		case now[name] == first[name]:
		case slices.Contains(covered[:], name):
			differs = append(differs, name)
		case now[name] != "":
			// A repeat that leaves out what the first copy said is not at odds with it.
			ignored = append(ignored, name)
		}
	}
	slices.Sort(differs)
	slices.Sort(ignored)
	return differs, ignored
}
