package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// The numbers that Twilio's test credentials answer in a way of their own.
// https://www.twilio.com/docs/iam/test-credentials#test-sms-messages
const (
	// twilioFrom is the sender of the simulated account.
	twilioFrom = "+15005550006"
	// twilioUnknownHandset is our own addition: taken, and never delivered (30005).
	twilioUnknownHandset = "+15005553005"
)

var twilioTo = map[string]int{
	"+15005550001": 21211, // not a number
	"+15005550002": 21612, // no route to it
	"+15005550003": 21408, // a country that is not switched on
	"+15005550004": 21610, // answered STOP
	"+15005550009": 21614, // cannot get messages
}

var twilioSenders = map[string]int{
	"+15005550001": 21212, // not a number
	"+15005550007": 21606, // not the account's
	"+15005550008": 21611, // its queue is full
}

// twilioWords are the refusals that are made here; the status of each is 400,
// but for those of 20000 and more, which end in it, and 20003.
var twilioWords = map[int]string{
	20003: "Authenticate",
	20004: "Method not allowed",
	20404: "Not found",
	20429: "Too Many Requests",
	21211: "Invalid 'To' phone number",
	21212: "Invalid From Number (caller ID)",
	21408: "Permission to send an SMS has not been enabled for the region indicated by the 'To' number",
	21602: "Message body is required.",
	21603: "A 'From' phone number is required.",
	21604: "A 'To' phone number is required.",
	21606: "The From phone number is not a valid, SMS-capable inbound phone number or short code for your account.",
	21609: "Invalid 'StatusCallback' url",
	21610: "Attempt to send to unsubscribed recipient",
	21611: "This 'From' number has exceeded the maximum number of queued messages",
	21612: "The message cannot be sent with this combination of 'To' and 'From'",
	21614: "'To' number is not a valid mobile number",
	21617: "The concatenated message body exceeds the 1600 character limit",
	21624: "Invalid validity period value",
	21701: "The Messaging Service does not exist",
}

func twilioRefusal(code int) *answer {
	status := http.StatusBadRequest
	switch code {
	case 20003:
		status = http.StatusUnauthorized
	case 20404:
		status = http.StatusNotFound
	}
	return &answer{status: status, reason: strconv.Itoa(code)}
}

// text is one message.
type text struct {
	sid, to, from, service, body, callback string
	created, sent                          time.Time
	// status and code are what is known so far; ending is where it will end:
	// a status with an error code, or "none" for one without callbacks.
	status, ending string
	code           int
	// late is how long the answer is held back, wait how long the callbacks are.
	late, wait time.Duration
}

var (
	e164        = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	serviceID   = regexp.MustCompile(`^MG[0-9a-fA-F]{32}$`)
	alphaSender = regexp.MustCompile(`^[A-Za-z0-9 +_&-]*[A-Za-z][A-Za-z0-9 +_&-]*$`)
)

// checkText returns Twilio's refusal of a message, or nil.
func checkText(m *text, form url.Values, from string) *answer {
	code := 0
	seconds, err := strconv.Atoi(form.Get("ValidityPeriod"))
	u, badURL := url.Parse(m.callback)
	switch {
	case m.to == "":
		code = 21604
	case m.from == "" && m.service == "":
		code = 21603
	case m.body == "":
		code = 21602
	case len(utf16.Encode([]rune(m.body))) > 1600 || !utf8.ValidString(m.body):
		code = 21617
	case !e164.MatchString(m.to):
		code = 21211
	case form.Has("ValidityPeriod") && (err != nil || seconds < 1 || seconds > 36000):
		code = 21624
	case m.callback != "" && (badURL != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http"):
		code = 21609
	case m.service != "" && !serviceID.MatchString(m.service):
		code = 21701
	case twilioTo[m.to] != 0:
		code = twilioTo[m.to]
	case m.service != "":
	case twilioSenders[m.from] != 0:
		code = twilioSenders[m.from]
	case alphaSender.MatchString(m.from) && len(m.from) <= 11 && !strings.HasPrefix(m.from, "MG"):
	case !e164.MatchString(m.from):
		code = 21212
	case m.from != from:
		code = 21606
	}
	if code == 0 {
		return nil
	}
	return twilioRefusal(code)
}

// twilioSegments counts by way of the encoded form: septets with a mark before
// those that cannot begin alone in a segment's last place, or UTF-16 units.
func twilioSegments(body string) int {
	const basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	var sizes []int
	alone, long := 160, 153
	for _, r := range body {
		switch {
		case strings.ContainsRune(basic, r):
			sizes = append(sizes, 1)
		case strings.ContainsRune("^{}\\[~]|€", r):
			sizes = append(sizes, 2)
		default:
			alone, long, sizes = 70, 67, nil
		}
		if alone == 70 {
			break
		}
	}
	if alone == 70 {
		for _, r := range body {
			sizes = append(sizes, utf16.RuneLen(r))
		}
	}
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	if sum <= alone {
		return 1
	}
	n, left := 1, long
	for _, size := range sizes {
		if left < size {
			n, left = n+1, long
		}
		left -= size
	}
	return n
}

// twilioTime is how the API writes times (RFC 2822, in GMT).
func twilioTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000")
	return &s
}

// json is the message as the API shows it.
func (t *twilioServer) json(m *text) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, err := json.Marshal(t.resource(m))
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// resource needs the lock.
func (t *twilioServer) resource(m *text) map[string]any {
	account := t.s.files.TwilioAccountSID
	r := map[string]any{
		"sid": m.sid, "account_sid": account, "to": m.to, "from": nil, "body": m.body, "status": m.status,
		"num_segments": fmt.Sprint(twilioSegments(m.body)), "num_media": "0", "direction": "outbound-api", "error_code": nil, "error_message": nil,
		"price": nil, "price_unit": "USD", "api_version": "2010-04-01", "messaging_service_sid": nil,
		"date_created": twilioTime(m.created), "date_updated": twilioTime(m.created), "date_sent": twilioTime(m.sent),
		"uri": twilioPrefix + account + "/Messages/" + m.sid + ".json",
	}
	if m.from != "" {
		r["from"] = m.from
	}
	if m.service != "" {
		r["messaging_service_sid"] = m.service
	}
	if m.code != 0 {
		r["error_code"] = m.code
	}
	return r
}

// list is the account's messages, the newest first, by To, From and DateSent.
func (t *twilioServer) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	size := 50
	if n, err := strconv.Atoi(q.Get("PageSize")); err == nil && n > 0 {
		size = min(n, 1000)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found := []map[string]any{}
	var next any
	from := q.Get("PageToken")
	for i := len(t.texts) - 1; i >= 0; i-- {
		m := t.texts[i]
		if from != "" {
			if m.sid == from {
				from = ""
			}
			continue
		}
		if !m.listed(q) {
			continue
		}
		if len(found) == size {
			q.Set("PageToken", fmt.Sprint(found[size-1]["sid"]))
			next = r.URL.Path + "?" + q.Encode()
			break
		}
		found = append(found, t.resource(m))
	}
	writeJSON(w, map[string]any{"messages": found, "page_size": size, "next_page_uri": next, "uri": r.URL.RequestURI()})
}

// listed reports whether a message passes the filters. One that has not left
// yet is looked for by the day when it was made.
func (m *text) listed(q url.Values) bool {
	day := m.created.UTC().Format(time.DateOnly)
	if !m.sent.IsZero() {
		day = m.sent.UTC().Format(time.DateOnly)
	}
	date := func(name string) string { v, _, _ := strings.Cut(q.Get(name), "T"); return v }
	return (!q.Has("To") || q.Get("To") == m.to) && (!q.Has("From") || q.Get("From") == m.from) &&
		(!q.Has("DateSent") || date("DateSent") == day) && (!q.Has("DateSent>") || date("DateSent>") <= day) && (!q.Has("DateSent<") || date("DateSent<") >= day)
}
