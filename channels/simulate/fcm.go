package simulate

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxFCMBody is as much of a request as is read. The message within is held to
// maxFCMPayload.
const maxFCMBody = 64 << 10

// fcmServer is FCM's HTTP v1 API together with the OAuth token endpoint that
// goes with it.
type fcmServer struct {
	srv      *Server
	project  string
	key      *rsa.PublicKey
	account  serviceAccount
	tls      *tls.Config
	plain    http.Handler // for peers that do not speak HTTP/2
	issuedMu sync.Mutex
	issued   map[string]time.Time // access token → until when it is good
}

func newFCMServer(s *Server, account serviceAccount, cert tls.Certificate) (*fcmServer, error) {
	key, err := account.publicKey()
	if err != nil {
		return nil, err
	}
	f := &fcmServer{srv: s, project: account.ProjectID, key: key, account: account, issued: map[string]time.Time{}, tls: &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
	}}
	f.plain = http1{s, f}
	return f, nil
}

func (s *fcmServer) serveConn(nc net.Conn) {
	c := tls.Server(nc, s.tls)
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return
	}
	if err := c.Handshake(); err != nil {
		return
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return
	}
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		newH2Conn(s.srv, s, c).serve()
		return
	}
	serveHTTP1(c, s.plain)
}

func (s *fcmServer) maxBody() int { return maxFCMBody }

// asked knows the device token when the body has come.
func (s *fcmServer) asked(p *push) (asked, bool) {
	if p.path == tokenPath {
		return asked{channel: channelFCMToken, stage: StageDot}, true
	}
	var request struct {
		Message struct {
			Token string `json:"token"`
		} `json:"message"`
	}
	if p.whole {
		_ = json.Unmarshal(p.body, &request) // what cannot be read has no address
	}
	return asked{channel: channelFCM, address: request.Message.Token, delivery: p.headers["x-delivery"], typ: p.headers["x-type"], stage: StageDot}, p.whole
}

// mayTakeEffect is false where FCM's documentation calls for nothing but
// sending again, later or with other credentials. A 503 is not among them: it
// is known to come after the message was taken on.
func (s *fcmServer) mayTakeEffect(a *answer) bool {
	switch a.status {
	case http.StatusUnauthorized, http.StatusTooManyRequests:
		return false
	case http.StatusForbidden:
		return a.reason == senderMismatch
	}
	return true
}

var sendPath = regexp.MustCompile(`^/v1/projects/([^/]+)/messages:send$`)

// decide judges a request: for a token, or for a message.
func (s *fcmServer) decide(p *push, _ *provider, now time.Time) (*Entry, *answer) {
	if p.path == tokenPath {
		p.unlogged = true
		return &Entry{}, s.grant(p, now)
	}
	sum := sha256.Sum256(p.body)
	fence, _ := strconv.ParseInt(p.headers["x-attempt"], 10, 64) // absent from other senders: 0
	e := &Entry{Time: now, Channel: channelFCM, Delivery: p.headers["x-delivery"], Fence: fence, BodyHash: hex.EncodeToString(sum[:])}
	a := s.admit(p, e, now)
	if a == nil {
		a = s.judge(p, e)
	}
	e.MayTakeEffect = e.MayTakeEffect && s.mayTakeEffect(a)
	e.TookEffect = e.MayTakeEffect && a.status == http.StatusOK
	return e, a
}

// admit returns the refusal of a request that is at the wrong door, or nil.
func (s *fcmServer) admit(p *push, e *Entry, now time.Time) *answer {
	e.MayTakeEffect = true
	path := sendPath.FindStringSubmatch(p.path)
	if path == nil || p.method != http.MethodPost {
		return &answer{status: http.StatusNotFound, html: true}
	}
	e.Account = path[1]
	scheme, token, _ := strings.Cut(p.headers["authorization"], " ")
	switch {
	case token == "" || !strings.EqualFold(scheme, "bearer"):
		return fcmError(http.StatusUnauthorized, "", "Request is missing required authentication credential.")
	case !s.good(token, now):
		return fcmError(http.StatusUnauthorized, "", "Request had invalid authentication credentials.")
	case path[1] != s.project:
		return fcmError(http.StatusForbidden, "", fmt.Sprintf("Permission 'cloudmessaging.messages.create' denied on project %q (or it may not exist).", path[1]))
	}
	return nil
}

// judge reads the message, completes its log line and answers it.
func (s *fcmServer) judge(p *push, e *Entry) *answer {
	if p.size > len(p.body) {
		return fcmError(http.StatusBadRequest, invalidArgument, "Request payload size exceeds the limit.")
	}
	m, refused := readFCM(p.body)
	if refused != nil {
		return refused
	}
	e.MayTakeEffect = !m.validateOnly
	e.Address, e.EffectKey, e.CollapseID, e.Title, e.BodyHash = m.target, m.effectKey, m.tag, m.title, m.hash
	if refused := m.check(); refused != nil {
		return refused
	}
	return s.accepted(m.validateOnly)
}

func (s *fcmServer) accepted(dry bool) *answer {
	id := "fake_message_id" // what a dry run is answered with
	if !dry {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails: it ends the process instead
		id = fmt.Sprintf("0:%d%%%x", time.Now().UnixMicro(), b)
	}
	return &answer{status: http.StatusOK, payload: mustJSON(map[string]string{"name": "projects/" + s.project + "/messages/" + id})}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings, and what came out of a decoder
	}
	return b
}
