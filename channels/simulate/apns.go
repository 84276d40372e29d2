package simulate

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of APNs ("Sending notification requests to APNs").
const (
	maxPayload     = 4096
	maxVoIPPayload = 5120
	maxCollapseID  = 64
)

type apnsServer struct {
	srv      *Server
	files    Files
	key      *ecdsa.PublicKey
	tls      *tls.Config
	verified sync.Map // token → when it was issued
}

func newAPNsServer(s *Server, key *ecdsa.PublicKey, cert tls.Certificate) *apnsServer {
	return &apnsServer{srv: s, files: s.files, key: key, tls: &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	}}
}

// serveConn refuses a peer that does not offer h2 in the handshake: APNs
// speaks nothing else.
func (s *apnsServer) serveConn(nc net.Conn) {
	c := tls.Server(nc, s.tls)
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return
	}
	if err := c.Handshake(); err != nil || c.ConnectionState().NegotiatedProtocol != "h2" {
		return
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return
	}
	newH2Conn(s.srv, s, c).serve()
}

func (p *push) token() string {
	token, _ := strings.CutPrefix(p.path, "/3/device/")
	return token
}

func (s *apnsServer) asked(p *push) (asked, bool) {
	return asked{channel: channelAPNs, address: p.token(), delivery: p.headers["x-delivery"], typ: p.headers["x-type"], stage: StageDot}, true
}

func (s *apnsServer) maxBody() int { return maxVoIPPayload }

func (s *apnsServer) mayTakeEffect(a *answer) bool { return a.mayTakeEffect() }

func (s *apnsServer) struck(f *Fault, ok *answer) *answer { return f.httpAnswer(ok) }

// decide judges a push that has come in whole.
func (s *apnsServer) decide(p *push, who *provider, now time.Time) (*Entry, *answer) {
	e := s.entry(p, now)
	if a := s.check(p, who, now); a != nil {
		e.MayTakeEffect = a.mayTakeEffect()
		a.id = p.headers["apns-id"]
		return e, a
	}
	if e.EffectKey == "" {
		e.EffectKey = newUUID()
	}
	e.TookEffect = true
	return e, &answer{status: 200, id: e.EffectKey}
}

// answer is what goes back on the stream, and what the log says of it.
type answer struct {
	status     int
	id         string // apns-id
	reason     string
	timestamp  int64 // ms, with Unregistered
	retryAfter string
	html       bool
	location   string
	errno      int    // of a push service
	payload    []byte // takes the place of APNs' JSON
}

// body is the provider's JSON; a success has none.
func (a *answer) body() []byte {
	switch {
	case a.html:
		return fmt.Appendf(nil, "<!DOCTYPE html><html><body><h1>%d %s</h1></body></html>", a.status, a.reason)
	case a.payload != nil:
		return a.payload
	case a.status == 200:
		return nil
	case a.timestamp != 0:
		return fmt.Appendf(nil, `{"reason":%q,"timestamp":%d}`, a.reason, a.timestamp)
	default:
		return fmt.Appendf(nil, `{"reason":%q}`, a.reason)
	}
}

func (a *answer) String() string {
	if a.reason == "" {
		return strconv.Itoa(a.status)
	}
	return strconv.Itoa(a.status) + " " + a.reason
}

// mayTakeEffect is false for the refusals after which the same request is sent
// again without a second thought: "later", and an account that must be mended
// first (its key, its topic).
func (a *answer) mayTakeEffect() bool {
	switch a.status {
	case 401, 403, 406, 425, 429:
		return false
	case 503:
		return a.retryAfter == "" && a.reason != "201" && a.reason != "202" // errnos of a push service that ask for another try
	case 400:
		if strings.HasPrefix(a.reason, "Unauthorized") || strings.HasPrefix(a.reason, "Vapid") {
			return false
		}
		return !strings.HasSuffix(a.reason, "Topic") && a.reason != "TopicDisallowed" && a.reason != "IdleTimeout" ||
			a.reason == "DeviceTokenNotForTopic"
	}
	return true
}

func refusal(status int, reason string) *answer { return &answer{status: status, reason: reason} }

// check returns APNs' refusal of a push, or nil. The order is the order in
// which a fault of one header hides those of the next.
func (s *apnsServer) check(p *push, who *provider, now time.Time) *answer {
	if p.method != "POST" {
		return refusal(405, "MethodNotAllowed")
	}
	token, ok := strings.CutPrefix(p.path, "/3/device/")
	switch {
	case !ok:
		return refusal(404, "BadPath")
	case token == "":
		return refusal(400, "MissingDeviceToken")
	case p.duplicate:
		return refusal(400, "DuplicateHeaders")
	}
	if status, reason := s.checkToken(who, p.headers["authorization"], now); status != 0 {
		return refusal(status, reason)
	}
	if reason := s.checkHeaders(p, token); reason != "" {
		return refusal(400, reason)
	}
	limit := maxPayload
	if p.headers["apns-push-type"] == "voip" {
		limit = maxVoIPPayload
	}
	switch {
	case p.size == 0:
		return refusal(400, "PayloadEmpty")
	case p.size > limit:
		return refusal(413, "PayloadTooLarge")
	case !json.Valid(p.body) || p.body[0] != '{':
		// The real one does not document its word for this.
		return refusal(400, "PayloadEmpty")
	}
	return nil
}

func (s *apnsServer) checkHeaders(p *push, token string) string {
	h := p.headers
	id, expiration, priority := h["apns-id"], h["apns-expiration"], h["apns-priority"]
	switch {
	case !isDeviceToken(token):
		return "BadDeviceToken"
	case h["apns-topic"] == "":
		return "MissingTopic"
	case strings.TrimSuffix(h["apns-topic"], ".voip") != s.files.APNsTopic:
		return "TopicDisallowed"
	case id != "" && !isUUID(id):
		return "BadMessageId"
	case len(h["apns-collapse-id"]) > maxCollapseID:
		return "BadCollapseId"
	case expiration != "" && !isNumber(expiration):
		return "BadExpirationDate"
	case !slices.Contains(pushTypes(), h["apns-push-type"]):
		return "InvalidPushType"
	case priority != "" && priority != "10" && priority != "5" && priority != "1",
		priority == "10" && h["apns-push-type"] == "background":
		return "BadPriority"
	}
	return ""
}

func pushTypes() []string {
	return []string{"alert", "background", "voip", "complication", "fileprovider", "mdm", "location", "liveactivity",
		"pushtotalk", "controls", "widgets"}
}

// isDeviceToken takes 32 to 100 bytes of hex: Apple documents the length as variable.
// isDeviceToken: of the right form, and not the token of nobody.
func isDeviceToken(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) >= 64 && len(s) <= 200 && strings.Trim(s, "0") != ""
}

func isNumber(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n >= 0
}

// isUUID takes the canonical form only: lower-case, 8-4-4-4-12.
func isUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || strings.ToLower(s) != s {
		return false
	}
	_, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	return err == nil
}

// entry is the log line of a push, its answer not filled in yet.
func (s *apnsServer) entry(p *push, now time.Time) *Entry {
	sum := sha256.Sum256(p.body)
	fence, _ := strconv.ParseInt(p.headers["x-attempt"], 10, 64) // absent from other senders: 0
	return &Entry{Time: now, Channel: channelAPNs, Account: p.headers["apns-topic"], Address: p.token(),
		Delivery: p.headers["x-delivery"], Fence: fence, EffectKey: p.headers["apns-id"],
		CollapseID: p.headers["apns-collapse-id"], BodyHash: hex.EncodeToString(sum[:]), Title: alertTitle(p.body), MayTakeEffect: true}
}

// alertTitle reads the title that the device would show.
func alertTitle(payload []byte) string {
	var v struct {
		APS struct {
			Alert json.RawMessage `json:"alert"`
		} `json:"aps"`
	}
	if json.Unmarshal(payload, &v) != nil {
		return ""
	}
	var alert struct{ Title string }
	if json.Unmarshal(v.APS.Alert, &alert) != nil {
		_ = json.Unmarshal(v.APS.Alert, &alert.Title) // an alert may be a bare string
	}
	return alert.Title
}

// newUUID is the apns-id of a push that came without one: the one case in
// which APNs writes it in capitals.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails: it ends the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return strings.ToUpper(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}
