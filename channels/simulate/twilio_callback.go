package simulate

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" // what Twilio signs with
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	callbackWorkers = 4
	callbackTimeout = 5 * time.Second
)

// add keeps a message and sets its callbacks going. They may overtake the
// answer, as Twilio's do.
func (t *twilioServer) add(m *text) {
	t.mu.Lock()
	t.texts, t.queue = append(t.texts, m), append(t.queue, m)
	t.mu.Unlock()
	t.signal()
}

func (t *twilioServer) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// next is a message whose callbacks are to be made; nil at the end.
func (t *twilioServer) next() *text {
	for {
		t.mu.Lock()
		if len(t.queue) > 0 {
			m := t.queue[0]
			t.queue = t.queue[1:]
			more := len(t.queue) > 0
			t.mu.Unlock()
			if more {
				t.signal()
			}
			return m
		}
		t.mu.Unlock()
		select {
		case <-t.wake:
		case <-t.s.done:
			return nil
		}
	}
}

// callBack tells senders what becomes of their messages: queued, sent, and the
// end. A callback that fails is not made again.
func (t *twilioServer) callBack() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-t.s.done:
			cancel()
		case <-stop:
		}
	}()
	for m := t.next(); m != nil; m = t.next() {
		if m.wait > 0 && !t.s.sleep(m.wait) {
			return
		}
		for _, status := range m.course() {
			t.becomes(m, status)
			if m.callback != "" && m.ending != "none" {
				t.tell(ctx, m)
			}
		}
	}
}

// course is what a message goes through.
func (m *text) course() []string {
	switch end, _, _ := strings.Cut(m.ending, " "); end {
	case "none":
		return []string{"sent", "delivered"}
	case "queued":
		return []string{"queued"}
	case "sent":
		return []string{"queued", "sent"}
	default:
		return []string{"queued", "sent", m.ending}
	}
}

func (t *twilioServer) becomes(m *text, status string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	word, code, _ := strings.Cut(status, " ")
	m.status = word
	m.code, _ = strconv.Atoi(code) // none: 0
	if word == "sent" {
		m.sent = time.Now()
	}
}

// tell makes one callback.
// https://www.twilio.com/docs/messaging/guides/track-outbound-message-status
func (t *twilioServer) tell(ctx context.Context, m *text) {
	t.mu.Lock()
	form := url.Values{"MessageSid": {m.sid}, "SmsSid": {m.sid}, "MessageStatus": {m.status}, "SmsStatus": {m.status}, "To": {m.to},
		"AccountSid": {t.s.files.TwilioAccountSID}, "ApiVersion": {"2010-04-01"}}
	if m.from != "" {
		form.Set("From", m.from)
	}
	if m.service != "" {
		form.Set("MessagingServiceSid", m.service)
	}
	if m.code != 0 {
		form.Set("ErrorCode", strconv.Itoa(m.code))
	}
	t.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.callback, strings.NewReader(form.Encode()))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	req.Header.Set("User-Agent", "TwilioProxy/1.1")
	req.Header.Set("X-Twilio-Signature", TwilioSignature(t.s.files.TwilioAuthToken, m.callback, form))
	if resp, err := t.client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// TwilioSignature is the value of X-Twilio-Signature for a callback to a URL.
// https://www.twilio.com/docs/usage/security#validating-requests
func TwilioSignature(token, callback string, form url.Values) string {
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(callback))
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range form[name] {
			mac.Write([]byte(name + value))
		}
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
