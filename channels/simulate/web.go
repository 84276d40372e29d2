package simulate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	maxWebhook = 1 << 20
	maxFaults  = 1 << 20
)

// newWebServer is the plain listener: push service and Twilio's API under their
// paths, the control endpoints, and the webhook receiver everywhere else.
func newWebServer(s *Server) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_simulate/faults", s.getFaults)
	mux.HandleFunc("PUT /_simulate/faults", s.putFaults)
	mux.HandleFunc("GET /_simulate/effects", s.getEffects)
	mux.HandleFunc("GET /_simulate/inbox", s.getInbox)
	mux.HandleFunc("POST /_simulate/webpush/subscribe", s.subscribe)
	mux.HandleFunc("DELETE /_simulate/webpush/subscriptions/{token}", s.unsubscribe)
	mux.HandleFunc("GET /_simulate/webhooks/{id}", s.webhookReceived)
	mux.HandleFunc("/_simulate/", http.NotFound)
	mux.HandleFunc(pushPath+"{token}", s.webPush)
	mux.Handle(twilioPath, newTwilioServer(s))
	mux.HandleFunc("/", s.webhook)
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16}
}

func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.faults.all()) }

func (s *Server) putFaults(w http.ResponseWriter, r *http.Request) {
	list, err := ReadFaults(http.MaxBytesReader(w, r.Body, maxFaults))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.faults.set(list)
	w.WriteHeader(http.StatusNoContent)
}

// getEffects is the log as it is on disk: a JSON object per line. With
// ?delivery= only that delivery's.
func (s *Server) getEffects(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	delivery := r.URL.Query().Get("delivery")
	if delivery == "" {
		f, err := os.Open(s.journal.path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer f.Close()
		_, _ = io.Copy(w, f) // the reader may go away
		return
	}
	entries, err := ReadLog(s.journal.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	enc := json.NewEncoder(w)
	for i := range entries {
		if entries[i].Delivery == delivery && enc.Encode(&entries[i]) != nil {
			return
		}
	}
}

func (s *Server) getInbox(w http.ResponseWriter, _ *http.Request) {
	entries, err := ReadLog(s.journal.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	inbox := Collapse(entries)
	if inbox == nil {
		inbox = []Message{}
	}
	writeJSON(w, inbox)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader may go away
}

// webhook receives a call.
func (s *Server) webhook(w http.ResponseWriter, r *http.Request) {
	h := r.Header
	url := "http://" + r.Host + r.URL.RequestURI()
	a := asked{channel: channelWebhook, address: url, path: r.URL.Path, delivery: h.Get("X-Delivery"), typ: h.Get("X-Type"), stage: StageDot}
	f := s.faults.take(a)
	if f != nil && f.Kind == FaultDropBefore {
		hijack(w, func(net.Conn) {})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWebhook))
	if tooBig := new(http.MaxBytesError); errors.As(err, &tooBig) {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		return // not received whole
	}
	sum := sha256.Sum256(body)
	fence, _ := strconv.ParseInt(h.Get("X-Attempt"), 10, 64) // absent from other senders: 0
	e := &Entry{Time: time.Now(), Channel: channelWebhook, Account: "default", Address: url, Delivery: h.Get("X-Delivery"),
		Fence: fence, EffectKey: h.Get("webhook-id"), BodyHash: hex.EncodeToString(sum[:]), Answer: "200", TookEffect: true, MayTakeEffect: true}
	if refused := s.checkWebhook(r, body); refused != nil {
		e.TookEffect = false
		s.answerHTTP(w, e, refused, writeWebhook)
		return
	}
	if f != nil {
		s.failHTTP(w, r, e, f, &answer{status: 200}, writeWebhook)
		return
	}
	s.answerHTTP(w, e, &answer{status: 200}, writeWebhook)
}

// webhookReceived tells a sender that asks, signed as its webhooks are, whether
// the receiver has one by its webhook-id.
func (s *Server) webhookReceived(w http.ResponseWriter, r *http.Request) {
	hook, err := standardwebhooks.NewWebhook(s.files.WebhookSecret)
	if err != nil || hook.Verify(nil, r.Header) != nil {
		http.Error(w, "the signature does not hold", http.StatusUnauthorized)
		return
	}
	entries, err := ReadLog(s.journal.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for i := range entries {
		if e := &entries[i]; e.Channel == channelWebhook && e.EffectKey == r.PathValue("id") && e.TookEffect {
			w.WriteHeader(http.StatusOK)
			return
		}
	}
	http.NotFound(w, r)
}

// checkWebhook returns the refusal of a call that is not a well-signed POST
// (Standard Webhooks 1.0.0).
func (s *Server) checkWebhook(r *http.Request, body []byte) *answer {
	if r.Method != http.MethodPost {
		return refusal(405, "method_not_allowed")
	}
	hook, err := standardwebhooks.NewWebhook(s.files.WebhookSecret)
	if err != nil {
		return refusal(500, "bad_secret")
	}
	if err := hook.Verify(body, r.Header); err != nil {
		return refusal(401, "bad_signature")
	}
	return nil
}

// reply writes an answer in the form that a provider gives it.
type reply func(w http.ResponseWriter, a *answer)

// answerHTTP writes the line, then the answer. Without the line the connection
// is dropped.
func (s *Server) answerHTTP(w http.ResponseWriter, e *Entry, a *answer, write reply) {
	e.Answer = a.String()
	if err := s.journal.write(e); err != nil {
		panic(http.ErrAbortHandler)
	}
	a.setHeaders(w.Header())
	write(w, a)
}

func (a *answer) setHeaders(h http.Header) {
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
}

func writeWebhook(w http.ResponseWriter, a *answer) {
	body := fmt.Appendf(nil, `{"ok":%t,"reason":%q}`, a.status == 200, a.reason)
	w.Header().Set("Content-Type", "application/json")
	if a.html {
		body = a.body()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // the sender may be gone
}

// failHTTP plays a fault out over HTTP/1.1; ok is the answer that there would
// be without it.
func (s *Server) failHTTP(w http.ResponseWriter, r *http.Request, e *Entry, f *Fault, ok *answer, write reply) {
	e.TookEffect = f.effect(true)
	switch f.Kind {
	case FaultStatus, FaultDeadToken, FaultRedirect:
		a := f.httpAnswer(&answer{})
		e.TookEffect, e.MayTakeEffect = f.effect(a.status/100 == 2), a.mayTakeEffect()
		s.answerHTTP(w, e, a, write)
		return
	case FaultDelay:
		if e.Answer = ok.String(); s.journal.write(e) != nil || !s.sleep(f.Delay) {
			panic(http.ErrAbortHandler)
		}
		ok.setHeaders(w.Header())
		write(w, ok)
		return
	case FaultHang:
		e.Answer = "none"
		if s.journal.write(e) == nil {
			select {
			case <-r.Context().Done():
			case <-s.done:
			}
		}
	case FaultTruncate:
		e.Answer = fmt.Sprint(ok.status, " truncated")
		if s.journal.write(e) == nil {
			hijack(w, func(nc net.Conn) {
				_, _ = fmt.Fprintf(nc, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: 64\r\n\r\n{\"ok\":", ok.status, http.StatusText(ok.status))
			})
			return
		}
	case FaultDropReply, FaultDropBefore, FaultRSTStream, FaultGoAway,
		FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply, FaultReceipt:
		e.Answer = "none"
		_ = s.journal.write(e) // dropped either way
	}
	panic(http.ErrAbortHandler)
}

// hijack takes the connection from the server, lets write have it, and closes it.
func hijack(w http.ResponseWriter, write func(net.Conn)) {
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer nc.Close()
	write(nc)
}
