package simulate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of FCM.
// https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
const (
	maxFCMPayload = 4096
	maxFCMTopic   = 2048
	maxFCMTTL     = 28 * 24 * time.Hour
)

// effectField is where this project's sender puts the id that is equal in
// every repeat; other senders have none.
const effectField = "notifier_id"

// fcmMessage is a request that could be read.
type fcmMessage struct {
	validateOnly bool
	message      map[string]any

	target, effectKey, tag, title, hash string
}

// readFCM reads a request as strictly as Google's JSON does: an unknown name
// or a value of another type is refused with its place.
func readFCM(body []byte) (*fcmMessage, *answer) {
	var request map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&request); err != nil {
		return nil, badField("", "Invalid JSON payload received.")
	}
	request, refused := conform("", request)
	if refused != nil {
		return nil, refused
	}
	m := &fcmMessage{}
	m.validateOnly, _ = request["validate_only"].(bool)
	m.message, _ = request["message"].(map[string]any)
	m.target = m.text("token")
	m.effectKey = m.text("data", effectField)
	m.tag = m.text("android", "notification", "tag")
	m.title = m.text("notification", "title")
	m.hash = m.bodyHash()
	return m, nil
}

// text is the string at a path, or "".
func (m *fcmMessage) text(path ...string) string {
	s, _ := at(m.message, path...).(string)
	return s
}

func at(v any, path ...string) any {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// bodyHash leaves out what differs between attempts by design: the rest of the
// time to live.
func (m *fcmMessage) bodyHash() string {
	message := maps.Clone(m.message)
	for _, path := range [][2]string{{"android", "ttl"}, {"webpush", "headers"}} {
		if object, ok := message[path[0]].(map[string]any); ok {
			object = maps.Clone(object)
			if headers, ok := object[path[1]].(map[string]any); ok {
				headers = maps.Clone(headers)
				delete(headers, "TTL")
				object[path[1]] = headers
			} else {
				delete(object, path[1])
			}
			message[path[0]] = object
		}
	}
	sum := sha256.Sum256(mustJSON(message))
	return hex.EncodeToString(sum[:])
}

// deviceTokenForm is what a registration token looks like. Google promises no
// form; the ones that are handed out have some 140 to 200 of these characters.
var deviceTokenForm = regexp.MustCompile(`^[A-Za-z0-9_:-]{32,}$`)

// check returns FCM's refusal of the message, or nil.
func (m *fcmMessage) check() *answer {
	if a := m.checkTarget(); a != nil {
		return a
	}
	if a := m.checkData(); a != nil {
		return a
	}
	if a := m.checkOptions(); a != nil {
		return a
	}
	limit := maxFCMPayload
	if m.text("topic") != "" || m.text("condition") != "" {
		limit = maxFCMTopic
	}
	if m.size() > limit {
		return fcmError(http.StatusBadRequest, invalidArgument, "Android message is too big")
	}
	return nil
}

func (m *fcmMessage) checkTarget() *answer {
	targets := 0
	for _, name := range []string{"token", "topic", "condition"} {
		if m.text(name) != "" {
			targets++
		}
	}
	switch {
	case targets == 0:
		return fcmError(http.StatusBadRequest, invalidArgument, "Recipient of the message is not set.", "message")
	case targets > 1:
		return badField("message", "Invalid value at 'message' (oneof), oneof field 'target' is already set.")
	case m.target != "" && !deviceTokenForm.MatchString(m.target):
		return fcmError(http.StatusBadRequest, invalidArgument, "The registration token is not a valid FCM registration token")
	}
	return nil
}

func (m *fcmMessage) checkData() *answer {
	data, _ := m.message["data"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key == "from" || key == "message_type" || strings.HasPrefix(key, "google") || strings.HasPrefix(key, "gcm") {
			return fcmError(http.StatusBadRequest, invalidArgument, "Invalid data payload key: "+key)
		}
	}
	return nil
}

func (m *fcmMessage) checkOptions() *answer {
	if ttl, ok := at(m.message, "android", "ttl").(string); ok {
		n, err := strconv.ParseFloat(strings.TrimSuffix(ttl, "s"), 64)
		if err != nil || !strings.HasSuffix(ttl, "s") || n < 0 || n > maxFCMTTL.Seconds() {
			return fcmError(http.StatusBadRequest, invalidArgument, "Invalid TTL.", "message.android.ttl")
		}
	}
	if p := strings.ToLower(m.text("android", "priority")); p != "" && p != "normal" && p != "high" {
		return badField("message.android.priority", fmt.Sprintf("Invalid value at 'message.android.priority', %q", p))
	}
	if link := m.text("webpush", "fcm_options", "link"); link != "" {
		if u, err := url.Parse(link); err != nil || u.Scheme != "https" {
			return badField("message.webpush.fcm_options.link", "The link must be HTTPS.")
		}
	}
	return nil
}

// size counts keys and values of what reaches an Android device. What exactly
// counts is not documented beyond that.
func (m *fcmMessage) size() int {
	return measure(m.message["notification"]) + measure(m.message["data"]) + measure(at(m.message, "android", "notification")) +
		measure(at(m.message, "android", "data"))
}

func measure(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case json.Number:
		return len(v)
	case bool:
		return len(strconv.FormatBool(v))
	case map[string]any:
		n := 0
		for name, value := range v {
			n += len(name) + measure(value)
		}
		return n
	case []any:
		n := 0
		for _, value := range v {
			n += measure(value)
		}
		return n
	}
	return 0
}

func badField(field, message string) *answer {
	return fcmError(http.StatusBadRequest, "", message, field)
}
