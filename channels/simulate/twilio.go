package simulate

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	twilioPath   = "/2010-04-01/"
	twilioPrefix = twilioPath + "Accounts/"
	maxForm      = 64 << 10
)

// twilioServer is Twilio's API as far as text messages go: an account, the
// messages that were made, and the callbacks that say what became of them. The
// messages are kept in memory: after a restart the list begins anew, while the
// log goes on.
type twilioServer struct {
	s *Server

	mu     sync.Mutex
	texts  []*text // in the order in which they were made
	queue  []*text // whose callbacks are to be made
	wake   chan struct{}
	client *http.Client
}

func newTwilioServer(s *Server) *twilioServer {
	t := &twilioServer{s: s, wake: make(chan struct{}, 1),
		client: &http.Client{Timeout: callbackTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for range callbackWorkers {
		s.wg.Go(t.callBack)
	}
	return t
}

// ServeHTTP is what lies below /2010-04-01/.
func (t *twilioServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account := twilioPrefix + t.s.files.TwilioAccountSID
	switch {
	case r.URL.Path == account+"/Messages.json" && r.Method == http.MethodPost:
		t.post(w, r)
	case !t.authentic(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="Twilio API"`)
		t.reply(w, r, twilioRefusal(20003))
	case r.URL.Path == account+".json" && r.Method == http.MethodGet:
		writeJSON(w, map[string]string{"sid": t.s.files.TwilioAccountSID, "friendly_name": "Simulated", "status": "active", "type": "Full"})
	case r.URL.Path == account+"/Messages.json" && r.Method == http.MethodGet:
		t.list(w, r)
	case r.URL.Path == account+".json" || r.URL.Path == account+"/Messages.json":
		t.reply(w, r, &answer{status: 405, reason: "20004"})
	default:
		t.reply(w, r, twilioRefusal(20404))
	}
}

func (t *twilioServer) authentic(r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	f := &t.s.files
	return subtle.ConstantTimeCompare([]byte(user), []byte(f.TwilioAccountSID))&subtle.ConstantTimeCompare([]byte(password), []byte(f.TwilioAuthToken)) == 1
}

// post makes a message. Whom it is for stands in the body, so that a fault
// which drops the connection before can only be found once it was read; the
// request counts as not received all the same.
func (t *twilioServer) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if tooBig := new(http.MaxBytesError); errors.As(err, &tooBig) {
		t.reply(w, r, &answer{status: 413, reason: "20413"})
		return
	} else if err != nil {
		return // not received whole
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		form = url.Values{}
	}
	m, e := t.text(r, form)
	f := t.s.faults.take(asked{channel: channelSMS, address: m.to, delivery: e.Delivery, typ: r.Header.Get("X-Type"), stage: StageDot})
	if f != nil && f.Kind == FaultDropBefore {
		hijack(w, func(net.Conn) {})
		return
	}
	refused := checkText(m, form, t.s.files.TwilioFrom)
	switch {
	case !t.authentic(r):
		refused = twilioRefusal(20003)
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		refused = &answer{status: 415, reason: "20415"}
	}
	switch {
	case refused != nil:
		e.TookEffect, e.MayTakeEffect = false, twilioMayTakeEffect(refused)
		t.answer(w, r, e, nil, refused)
	case f != nil:
		t.fail(w, r, e, m, f)
	default:
		t.answer(w, r, e, m, &answer{status: 201})
	}
}

// text is the message that a form asks for, and its line in the log.
func (t *twilioServer) text(r *http.Request, form url.Values) (*text, *Entry) {
	now := time.Now()
	m := &text{sid: "SM" + hex.EncodeToString(randomBytes(16)), to: form.Get("To"), from: form.Get("From"), service: form.Get("MessagingServiceSid"),
		body: form.Get("Body"), created: now, status: "queued", ending: "delivered", callback: form.Get("StatusCallback")}
	if m.to == twilioUnknownHandset {
		m.ending = "undelivered 30005"
	}
	delivery := r.Header.Get("X-Delivery")
	effect := delivery
	if u, err := url.Parse(m.callback); err == nil && u.Query().Has("delivery") {
		effect = u.Query().Get("delivery")
	}
	if delivery == "" {
		delivery = effect
	}
	same := url.Values{}
	for name, v := range form {
		if name != "ValidityPeriod" { // what is left until the expiry, which differs between attempts
			same[name] = v
		}
	}
	sum := sha256.Sum256([]byte(same.Encode()))
	fence, _ := strconv.ParseInt(r.Header.Get("X-Attempt"), 10, 64) // absent from other senders: 0
	return m, &Entry{Time: now, Channel: channelSMS, Account: t.s.files.TwilioAccountSID, Address: m.to, Delivery: delivery, Fence: fence,
		EffectKey: effect, BodyHash: hex.EncodeToString(sum[:]), Title: m.body, Answer: "201", TookEffect: true, MayTakeEffect: true}
}

// record writes the line, and then makes the message if it took effect.
func (t *twilioServer) record(e *Entry, m *text) bool {
	if t.s.journal.write(e) != nil {
		return false
	}
	if e.TookEffect && m != nil {
		t.add(m)
	}
	return true
}

// answer records and answers. Without the line the connection is dropped.
func (t *twilioServer) answer(w http.ResponseWriter, r *http.Request, e *Entry, m *text, a *answer) {
	e.Answer = a.String()
	if a.status/100 != 2 {
		if !t.record(e, m) {
			panic(http.ErrAbortHandler)
		}
		t.reply(w, r, a)
		return
	}
	made := t.json(m) // as it is now: queued
	if !t.record(e, m) || m.late > 0 && !t.s.sleep(m.late) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(made) // the sender may be gone
}

// reply is an answer that makes no message.
func (t *twilioServer) reply(w http.ResponseWriter, r *http.Request, a *answer) {
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	body := twilioError(a, r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	if a.html {
		body = a.body()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body)
}

func (t *twilioServer) fail(w http.ResponseWriter, r *http.Request, e *Entry, m *text, f *Fault) {
	e.TookEffect = f.effect(true)
	m.ending = f.ending()
	switch f.Kind {
	case FaultStatus, FaultDeadToken, FaultRedirect:
		a := f.twilioAnswer()
		e.TookEffect, e.MayTakeEffect = f.effect(a.status/100 == 2), twilioMayTakeEffect(a)
		t.answer(w, r, e, m, a)
		return
	case FaultReceipt:
		m.wait = f.Delay
		t.answer(w, r, e, m, &answer{status: 201})
		return
	case FaultDelay:
		m.late = f.Delay
		t.answer(w, r, e, m, &answer{status: 201})
		return
	case FaultHang:
		if e.Answer = "none"; t.record(e, m) {
			select {
			case <-r.Context().Done():
			case <-t.s.done:
			}
		}
	case FaultTruncate:
		if e.Answer = "201 truncated"; t.record(e, m) {
			hijack(w, func(nc net.Conn) {
				_, _ = io.WriteString(nc, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 640\r\n\r\n{\"sid\": \"SM")
			})
			return
		}
	case FaultDropReply, FaultDropBefore, FaultRSTStream, FaultGoAway,
		FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply:
		e.Answer = "none"
		t.record(e, m) // dropped either way
	}
	panic(http.ErrAbortHandler)
}

// twilioAnswer is the answer of a fault. Of a dead number it is what Reason
// says, one of Twilio's codes; a code from 30000 on comes with a receipt only.
func (f *Fault) twilioAnswer() *answer {
	switch {
	case f.Kind == FaultDeadToken && f.Reason == "":
		return twilioRefusal(21211)
	case f.Kind == FaultDeadToken && strings.HasPrefix(f.Reason, "3"):
		return &answer{status: 201}
	case f.Kind == FaultDeadToken:
		return &answer{status: 400, reason: f.Reason}
	default:
		return f.httpAnswer(&answer{})
	}
}

// ending is how a message's callbacks end.
func (f *Fault) ending() string {
	switch {
	case f.Kind == FaultDeadToken && f.Reason != "":
		return "undelivered " + f.Reason
	case f.Kind == FaultReceipt && f.Reason != "":
		return f.Reason
	default:
		return "delivered"
	}
}

// twilioMayTakeEffect is false for "later", and for an account that must be
// mended first.
func twilioMayTakeEffect(a *answer) bool {
	switch a.status {
	case 401, 403, 404, 429:
		return false
	default:
		return a.status != 400 || a.reason != "21611"
	}
}

// twilioError is the body of a refusal. The code is the reason where that is
// one, else the general one of the status.
func twilioError(a *answer, path string) []byte {
	code, err := strconv.Atoi(a.reason)
	if err != nil {
		code = 20000 + a.status
	}
	message := twilioWords[code]
	switch {
	case message == "" && err != nil:
		message = a.reason
	case code == 20404:
		message = "The requested resource " + path + " was not found"
	}
	return fmt.Appendf(nil, `{"code": %d, "message": %q, "more_info": "https://www.twilio.com/docs/errors/%d", "status": %d}`, code, message, code, a.status)
}
