package simulate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// The names of the channels that are simulated, as in the log.
const (
	channelAPNs    = "apns"
	channelWebPush = "webpush"
	channelEmail   = "email"
	channelSMS     = "sms"
	channelWebhook = "webhook"
	channelFCM     = "fcm"
	// channelFCMToken is the token endpoint that goes with fcm. A fault for any
	// channel spares it.
	channelFCMToken = "fcm_token"
)

// FaultKind says what goes wrong.
type FaultKind string

// The kinds of faults. Unless Fault.Effect says otherwise, the message takes
// effect where the comment says so.
const (
	FaultDelay      FaultKind = "delay"       // effect, the answer comes after Delay
	FaultHang       FaultKind = "hang"        // effect, no answer; the connection stays open
	FaultDropReply  FaultKind = "drop_reply"  // effect, then the connection is dropped
	FaultDropBefore FaultKind = "drop_before" // the connection is dropped before the request is read; no log line
	FaultTruncate   FaultKind = "truncate"    // effect, then the answer is cut
	FaultStatus     FaultKind = "status"      // Status and Reason, with RetryAfter, as HTML; at the final dot for email
	FaultDeadToken  FaultKind = "dead_token"  // 410 Unregistered with a timestamp; 404 UNREGISTERED (fcm); 410; 400 with Reason, such as 21610 (sms; 30005: taken, then undelivered); 550 5.1.1 to RCPT
	FaultRedirect   FaultKind = "redirect"    // 307 to another path here (apns, fcm, webpush, sms, webhook)
	FaultRSTStream  FaultKind = "rst_stream"  // RST_STREAM with Code; effect unless REFUSED_STREAM (apns, fcm)
	FaultGoAway     FaultKind = "goaway"      // GOAWAY, see the GoAway constants (apns, fcm)

	FaultCloseBeforeDot  FaultKind = "close_before_dot"  // closed after the mail's headers (email); no log line
	FaultCloseAfterDot   FaultKind = "close_after_dot"   // effect, closed without a reply (email)
	FaultAcceptThenClose FaultKind = "accept_then_close" // effect, 250, closed (email)
	FaultSlowDot         FaultKind = "slow_dot"          // effect, 250 after Delay (email)
	FaultReply           FaultKind = "reply"             // Status and Reason at Stage (email)

	// FaultReceipt takes the message and calls back with the end that Reason
	// says, after Delay: "undelivered 30003", "failed 30008", "delivered", "sent"
	// or "queued" and no more, or "none" for no callback at all (sms).
	FaultReceipt FaultKind = "receipt"
)

// What Fault.Code may be for FaultGoAway.
const (
	// GoAwayProcessed is GOAWAY NO_ERROR that counts the stream as processed,
	// then a close: effect, no answer.
	GoAwayProcessed = "graceful_processed"
	// GoAwayUnprocessed is GOAWAY NO_ERROR with the stream beyond the last one.
	GoAwayUnprocessed = "graceful_unprocessed"
	// GoAwayError is GOAWAY ENHANCE_YOUR_CALM with the stream beyond the last one, then a close.
	GoAwayError = "error"
)

// Where in the SMTP dialogue FaultReply answers.
const (
	StageConnect = "connect"
	StageAuth    = "auth"
	StageMail    = "mail"
	StageRcpt    = "rcpt"
	StageData    = "data"
	StageContent = "content" // not for FaultReply: after the headers
	StageDot     = "dot"
)

// Fault is something that goes wrong for the requests that it matches. Faults
// are tried in order; the first that matches is used. A request spends the
// fault that it matched even when it is refused for a mistake of its own.
type Fault struct {
	Channel string // empty: any
	// Address is the token, the mailbox or the URL (or its path); empty: any.
	Address string
	// Delivery is X-Delivery; empty: any.
	Delivery string
	// Type is X-Type; a request that does not carry it never matches a fault that asks for it.
	Type string
	// Times is how many requests it is for; 0: all.
	Times int
	// Probability is the chance that a request that matches is hit; 0 means 1.
	Probability float64
	Kind        FaultKind
	Delay       time.Duration
	Status      int
	Reason      string
	// RetryAfter is the header's value: seconds or an HTTP date.
	RetryAfter string
	// HTML answers with an HTML page in place of the provider's JSON.
	HTML bool
	// Code is the name of an HTTP/2 error code, or a GoAway constant.
	Code string
	// Stage is where FaultReply answers.
	Stage string
	// Effect, when set, decides whether the message takes effect, whatever the kind.
	Effect *bool
}

// CheckFaults says what is wrong with a list of faults.
func CheckFaults(list []Fault) error {
	for i, f := range list {
		if err := f.check(); err != nil {
			return fmt.Errorf("fault %d: %w", i, err)
		}
	}
	return nil
}

func (f *Fault) check() error {
	kinds, ok := faultKinds(f.Channel)
	switch {
	case !ok:
		return fmt.Errorf("channel %q: allowed are apns, fcm, fcm_token, webpush, email, sms, webhook or none for all", f.Channel)
	case !slices.Contains(kinds, f.Kind):
		return fmt.Errorf("kind %q: allowed here are %v", f.Kind, kinds)
	case f.Times < 0:
		return fmt.Errorf("times %d: it cannot be negative", f.Times)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("probability %v: it lies between 0 and 1", f.Probability)
	case f.Delay < 0 || (f.Delay == 0 && (f.Kind == FaultDelay || f.Kind == FaultSlowDot)):
		return fmt.Errorf("delay %v: kind %s needs one, such as 2s", f.Delay, f.Kind)
	case (f.Kind == FaultStatus || f.Kind == FaultReply) && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("status %d: kind %s needs one from 200 to 599", f.Status, f.Kind)
	case f.Kind == FaultReply && !slices.Contains([]string{StageConnect, StageAuth, StageMail, StageRcpt, StageData, StageDot}, f.Stage):
		return fmt.Errorf("stage %q: allowed are connect, auth, mail, rcpt, data, dot", f.Stage)
	case f.Kind == FaultGoAway && !slices.Contains([]string{GoAwayProcessed, GoAwayUnprocessed, GoAwayError}, f.Code):
		return fmt.Errorf("code %q: allowed are graceful_processed, graceful_unprocessed, error", f.Code)
	case strings.ContainsAny(f.Reason+f.RetryAfter, "\r\n"):
		return fmt.Errorf("reason and retry_after are one line each")
	case f.Kind == FaultReceipt && !receiptReason.MatchString(f.Reason):
		return fmt.Errorf("reason %q: kind receipt needs one such as undelivered 30005, failed 30008, delivered, sent, queued or none", f.Reason)
	}
	if f.Kind == FaultRSTStream {
		if _, ok := errCode(f.Code); !ok {
			return fmt.Errorf("code %q: an HTTP/2 error code such as REFUSED_STREAM is needed", f.Code)
		}
	}
	return nil
}

var receiptReason = regexp.MustCompile(`^((undelivered|failed) [1-9][0-9]{4}|delivered|sent|queued|none)$`)

func faultKinds(channel string) ([]FaultKind, bool) {
	all := []FaultKind{FaultDelay, FaultHang, FaultDropReply, FaultDropBefore, FaultTruncate, FaultStatus, FaultDeadToken}
	web := append(slices.Clip(all), FaultRedirect)
	h2 := append(slices.Clip(web), FaultRSTStream, FaultGoAway)
	mail := []FaultKind{FaultCloseBeforeDot, FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReply}
	switch channel {
	case "":
		return append(append(h2, mail...), FaultReceipt), true
	case channelAPNs, channelFCM, channelFCMToken:
		return h2, true
	case channelWebPush, channelWebhook:
		return web, true
	case channelSMS:
		return append(web, FaultReceipt), true
	case channelEmail:
		return append(all, mail...), true
	}
	return nil, false
}

func errCode(name string) (http2.ErrCode, bool) {
	for c := http2.ErrCodeNo; c <= http2.ErrCodeHTTP11Required; c++ {
		if c.String() == name {
			return c, true
		}
	}
	return 0, false
}

// stage is where in a dialogue the fault strikes; HTTP has only StageDot.
func (f *Fault) stage(channel string) string {
	if channel != channelEmail {
		return StageDot
	}
	switch f.Kind {
	case FaultReply:
		return f.Stage
	case FaultDropBefore, FaultDeadToken:
		return StageRcpt
	case FaultCloseBeforeDot:
		return StageContent
	case FaultDelay, FaultHang, FaultDropReply, FaultTruncate, FaultStatus, FaultRedirect, FaultRSTStream, FaultGoAway,
		FaultCloseAfterDot, FaultAcceptThenClose, FaultSlowDot, FaultReceipt:
	}
	return StageDot
}

// effect is the fault's own default unless it was told otherwise.
func (f *Fault) effect(byDefault bool) bool {
	if f.Effect != nil {
		return *f.Effect
	}
	return byDefault
}

// asked is what a fault is matched against.
type asked struct {
	channel, address, delivery, typ, stage string
	path                                   string // of a webhook's URL: another way to name the address
}

// faults is the list in force.
type faults struct {
	mu   sync.Mutex
	list []Fault
	left []int // what is left of Times; unused for 0
	rand *rand.Rand
	seed uint64
}

func newFaults(seed uint64) *faults {
	return &faults{seed: seed, rand: rand.New(rand.NewPCG(seed, 0))}
}

// set replaces the list and starts the sequence of chances over.
func (fs *faults) set(list []Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = slices.Clone(list)
	fs.left = make([]int, len(list))
	for i, f := range list {
		fs.left[i] = f.Times
	}
	fs.rand = rand.New(rand.NewPCG(fs.seed, 0))
}

// all returns the faults that can still strike, with what is left of Times.
func (fs *faults) all() []Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	list := []Fault{}
	for i, f := range fs.list {
		if f.Times > 0 && fs.left[i] == 0 {
			continue
		}
		f.Times = fs.left[i]
		list = append(list, f)
	}
	return list
}

// take returns the fault for a request, or nil, and counts it.
func (fs *faults) take(a asked) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i := range fs.list {
		f := &fs.list[i]
		if !f.matches(a) || (f.Times > 0 && fs.left[i] == 0) {
			continue
		}
		if f.Probability > 0 && fs.rand.Float64() >= f.Probability {
			continue
		}
		if f.Times > 0 {
			fs.left[i]--
		}
		hit := *f
		return &hit
	}
	return nil
}

func (f *Fault) matches(a asked) bool {
	kinds, _ := faultKinds(a.channel)
	return (f.Channel == "" && a.channel != channelFCMToken || f.Channel == a.channel) && slices.Contains(kinds, f.Kind) && f.stage(a.channel) == a.stage &&
		(f.Address == "" || f.Address == a.address || f.Address == a.path) && (f.Delivery == "" || f.Delivery == a.delivery) && (f.Type == "" || f.Type == a.typ)
}
