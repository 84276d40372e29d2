package simulate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPushBody is the longest body that a push service has to take (RFC 8030
// section 7.2).
const maxPushBody = 4096

// Mozilla's numbers, which go with a status in the body of an error.
// https://mozilla-services.github.io/autopush-rs/errors.html
const (
	errnoUnknownURL    = 102
	errnoTooLarge      = 104
	errnoGone          = 106
	errnoBadToken      = 109
	errnoBadEncryption = 110
	errnoNoTTL         = 111
	errnoBadTTL        = 112
	errnoBadTopic      = 113
)

// webPush receives a message for a subscription, as Mozilla's push service
// does (RFC 8030 section 5), and hands it to the browser at once: one that does
// not decrypt, which a browser would drop without a word, is refused here.
func (s *Server) webPush(w http.ResponseWriter, r *http.Request) {
	h := r.Header
	token := r.PathValue("token")
	b, known := s.push.browser(token, r.Host)
	address := "https://" + r.Host + r.URL.Path
	if known {
		address = b.endpoint
	}
	f := s.faults.take(asked{channel: channelWebPush, address: address, path: r.URL.Path, delivery: h.Get("X-Delivery"), typ: h.Get("X-Type"), stage: StageDot})
	if f != nil && f.Kind == FaultDropBefore {
		hijack(w, func(net.Conn) {})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPushBody))
	tooBig := new(http.MaxBytesError)
	if err != nil && !errors.As(err, &tooBig) {
		return // not received whole
	}
	fence, _ := strconv.ParseInt(h.Get("X-Attempt"), 10, 64) // absent from other senders: 0
	e := &Entry{Time: time.Now(), Channel: channelWebPush, Address: address, Delivery: h.Get("X-Delivery"), Fence: fence,
		CollapseID: h.Get("Topic"), MayTakeEffect: true}
	e.readPush(body)
	m := &message{Request: r, body: body, tooBig: err != nil}
	if refused := s.checkPush(b, m, e); refused != nil {
		e.MayTakeEffect = refused.mayTakeEffect()
		s.answerHTTP(w, e, refused, writePush)
		return
	}
	e.TookEffect = true
	ok := &answer{status: http.StatusCreated, location: b.origin + "/m/" + hex.EncodeToString(randomBytes(16))}
	if f != nil {
		s.failHTTP(w, r, e, f, ok, writePush)
		return
	}
	s.answerHTTP(w, e, ok, writePush)
}

// message is a request with what was read of its body.
type message struct {
	*http.Request
	body   []byte
	tooBig bool
}

// checkPush returns the refusal of a message, or nil and the entry filled in.
func (s *Server) checkPush(b *browser, m *message, e *Entry) *answer {
	switch {
	case m.Method != http.MethodPost:
		return refusal(http.StatusMethodNotAllowed, "Method not allowed")
	case b == nil:
		return pushRefusal(http.StatusNotFound, errnoUnknownURL, "Invalid token")
	case s.push.isDead(b.token):
		return pushRefusal(http.StatusGone, errnoGone, "No such subscription")
	}
	var err error
	if e.Account, err = b.checkVAPID(m.Header.Get("Authorization"), e.Time); err != nil {
		return pushRefusal(http.StatusUnauthorized, errnoBadToken, err.Error())
	}
	if refused := checkPushHeaders(m); refused != nil || len(m.body) == 0 {
		return refused // a message without a body is only a sign
	}
	if m.Header.Get("Content-Encoding") != "aes128gcm" {
		return pushRefusal(http.StatusBadRequest, errnoBadEncryption, "Unknown Content-Encoding header: aes128gcm is taken")
	}
	text, err := decrypt(m.body, b.key, b.auth)
	if err != nil {
		return pushRefusal(http.StatusBadRequest, errnoBadEncryption, err.Error())
	}
	e.readPush(text)
	return nil
}

func checkPushHeaders(m *message) *answer {
	h := m.Header
	ttl, topic, urgency := h.Get("TTL"), h.Get("Topic"), h.Get("Urgency")
	switch {
	case m.tooBig:
		return pushRefusal(http.StatusRequestEntityTooLarge, errnoTooLarge, "This message is intended for a constrained device and is limited in size")
	case ttl == "":
		return pushRefusal(http.StatusBadRequest, errnoNoTTL, "Missing TTL value")
	case !isNumber(ttl):
		return pushRefusal(http.StatusBadRequest, errnoBadTTL, "Invalid TTL value")
	case len(h.Values("Topic")) > 0 && !isTopic(topic):
		return pushRefusal(http.StatusBadRequest, errnoBadTopic, "Invalid Topic value")
	case len(h.Values("Urgency")) > 0 && !slices.Contains([]string{"very-low", "low", "normal", "high"}, urgency):
		return pushRefusal(http.StatusBadRequest, 0, "Invalid Urgency value")
	}
	return nil
}

// isTopic takes 1 to 32 characters of base64url (RFC 8030 section 5.4), and of
// these only what decodes, as Apple does.
func isTopic(s string) bool {
	_, err := base64.RawURLEncoding.DecodeString(s)
	return err == nil && s != "" && len(s) <= 32
}

// readPush fills in what the message says, as far as it can be read.
func (e *Entry) readPush(text []byte) {
	sum := sha256.Sum256(text)
	e.BodyHash = hex.EncodeToString(sum[:])
	var said struct{ ID, Title string }
	if json.Unmarshal(text, &said) == nil {
		e.EffectKey, e.Title = said.ID, said.Title
	}
}

func pushRefusal(status, errno int, message string) *answer {
	return &answer{status: status, errno: errno, reason: message}
}

// writePush writes an error as Mozilla does. A fault whose reason is a number
// means that errno.
func writePush(w http.ResponseWriter, a *answer) {
	if a.html {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body()) // the sender may be gone
		return
	}
	if a.status/100 == 2 {
		w.WriteHeader(a.status)
		return
	}
	said := struct {
		Code    int    `json:"code"`
		Errno   *int   `json:"errno"`
		Error   string `json:"error"`
		Message string `json:"message"`
	}{a.status, nil, http.StatusText(a.status), a.reason}
	if n, err := strconv.Atoi(strings.TrimSpace(a.reason)); err == nil {
		said.Errno = &n
	} else if a.errno != 0 {
		said.Errno = &a.errno
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(said) // the sender may be gone
}
