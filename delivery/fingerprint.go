package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-4b260dfd/notifier"
)

// covered are the fields that say what is said to whom: another value under
// the same key is another request. The rest say where, when and how, which the
// first copy decides.
var covered = [...]string{"type", "recipient", "data", "entity", "version"}

// fingerprint hashes what of a request must be equal in every copy, in
// canonical form (RFC 8785, whole numbers kept exact), and digests each field so
// that a difference can be named.
func fingerprint(req *notifier.Request) ([32]byte, map[string]string, error) {
	parts := map[string]string{}
	whole := sha256.New()
	for _, f := range []struct {
		name  string
		value any
		unset bool
	}{
		{"type", req.Type, req.Type == ""},
		{"recipient", req.Recipient, req.Recipient == ""},
		{"data", req.Data, len(req.Data) == 0},
		{"entity", req.Entity, req.Entity == ""},
		{"version", req.Version, req.Version == 0},
		{"to", req.To, len(req.To) == 0},
		{"locale", req.Locale, req.Locale == ""},
		{"time_zone", req.TimeZone, req.TimeZone == ""},
		{"send_at", req.SendAt.UTC().Format(time.RFC3339Nano), req.SendAt.IsZero()},
		{"expires_at", req.ExpiresAt.UTC().Format(time.RFC3339Nano), req.ExpiresAt.IsZero()},
	} {
		if f.unset {
			continue
		}
		canonical, err := canonicalJSON(f.value)
		if err != nil {
			return [32]byte{}, nil, &notifier.Error{Code: notifier.CodeInvalid, Field: f.name, Message: err.Error()}
		}
		sum := sha256.Sum256(canonical)
		parts[f.name] = hex.EncodeToString(sum[:8])
		if slices.Contains(covered[:], f.name) {
			fmt.Fprintf(whole, "%s:%d:%s", f.name, len(canonical), canonical)
		}
	}
	return [32]byte(whole.Sum(nil)), parts, nil
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
