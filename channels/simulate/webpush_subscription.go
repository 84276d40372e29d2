package simulate

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

const (
	// pushHost is where subscriptions lie unless they were asked for directly:
	// a name that leads nowhere, so that only an account that is pointed at the
	// simulator reaches anything.
	pushHost = "push.simulated.example"
	// pushPath is the path of a subscription, its token after it.
	pushPath     = "/wpush/v2/"
	maxSubscribe = 1 << 16
)

// PushKeys are the keys of a subscription.
type PushKeys struct {
	P256dh string `json:"p256dh"`
	Auth   string `json:"auth"`
}

// Subscription is what a browser would hand to its page.
type Subscription struct {
	Endpoint       string   `json:"endpoint"`
	ExpirationTime *int64   `json:"expirationTime"`
	Keys           PushKeys `json:"keys"`
}

// pushService is the push service and, for each of its subscriptions, the
// browser. It keeps nothing: a token says all that there is to know of its
// subscription, and the browser's keys are derived from it.
type pushService struct {
	seed []byte
	mu   sync.Mutex
	dead map[string]bool // unsubscribed since the start
}

func newPushService(seed string) *pushService {
	return &pushService{seed: []byte(seed), dead: map[string]bool{}}
}

// The parts of a token: how the endpoint is spelt, which browser it is, whose
// key it is bound to, and the proof that the token was made here.
const (
	pushAtHost   = 0
	pushDirect   = 1
	pushNameLen  = 16
	pushOwnerLen = 16
	pushMACLen   = 16
	pushBodyLen  = 1 + pushNameLen + pushOwnerLen
)

// browser is one subscription as the browser that made it knows it.
type browser struct {
	token    string
	endpoint string
	origin   string
	bound    bool // to owner
	owner    [pushOwnerLen]byte
	key      *ecdh.PrivateKey
	auth     []byte
}

// subscription makes the token of a browser. The same name and key give the
// same subscription.
func (p *pushService) token(form byte, name string, owner []byte) string {
	body := []byte{form}
	sum := sha256.Sum256([]byte(name))
	body = append(body, sum[:pushNameLen]...)
	body = append(body, ownerHash(owner)...)
	return base64.RawURLEncoding.EncodeToString(append(body, p.mac(body)...))
}

// ownerHash is zero for no owner.
func ownerHash(publicKey []byte) []byte {
	if len(publicKey) == 0 {
		return make([]byte, pushOwnerLen)
	}
	sum := sha256.Sum256(publicKey)
	return sum[:pushOwnerLen]
}

func (p *pushService) mac(body []byte) []byte {
	m := hmac.New(sha256.New, p.seed)
	m.Write(body)
	return m.Sum(nil)[:pushMACLen]
}

// browser reads a token; false: it is none of ours. The host is that of the
// request, for subscriptions that lie wherever the simulator is called.
func (p *pushService) browser(token, host string) (*browser, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != pushBodyLen+pushMACLen || !hmac.Equal(raw[pushBodyLen:], p.mac(raw[:pushBodyLen])) {
		return nil, false
	}
	b := &browser{token: token, origin: "https://" + pushHost}
	if raw[0] == pushDirect {
		b.origin = "http://" + host
	}
	b.endpoint = b.origin + pushPath + token
	copy(b.owner[:], raw[1+pushNameLen:])
	b.bound = b.owner != [pushOwnerLen]byte{}
	if err := p.derive(b, raw[:pushBodyLen]); err != nil {
		return nil, false
	}
	return b, true
}

// derive makes the browser's keys.
func (p *pushService) derive(b *browser, body []byte) (err error) {
	if b.auth, err = hkdf.Key(sha256.New, p.seed, body, "auth", 16); err != nil {
		return err
	}
	for i := 0; ; i++ {
		// Nearly every 32 bytes are a key: those that are not less than the
		// curve's order are passed over.
		scalar, err := hkdf.Key(sha256.New, p.seed, body, fmt.Sprint("p256dh", i), 32)
		if err != nil {
			return err
		}
		if b.key, err = ecdh.P256().NewPrivateKey(scalar); err == nil || i > 8 {
			return err
		}
	}
}

func (b *browser) subscription() Subscription {
	return Subscription{Endpoint: b.endpoint, Keys: PushKeys{
		P256dh: base64.RawURLEncoding.EncodeToString(b.key.PublicKey().Bytes()),
		Auth:   base64.RawURLEncoding.EncodeToString(b.auth),
	}}
}

// Subscription is the subscription of the browser with a name, bound to the
// VAPID key in Files. It is the same in every call, and after a restart.
func (s *Server) Subscription(name string) Subscription {
	owner, err := base64.RawURLEncoding.DecodeString(s.files.VAPIDPublicKey)
	if err != nil {
		panic(err) // Init wrote it
	}
	b, _ := s.push.browser(s.push.token(pushAtHost, name, owner), "")
	return b.subscription()
}

// subscribe is POST /_simulate/webpush/subscribe, what a page does with
// pushManager.subscribe: {"name", "applicationServerKey", "direct"}, all of them
// optional. The name picks a browser; without one it is a new one. The key
// binds the subscription to it. With direct, the endpoint is the simulator's
// own, without TLS, for senders that cannot be pointed at it.
func (s *Server) subscribe(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Name   string `json:"name"`
		Key    string `json:"applicationServerKey"`
		Direct bool   `json:"direct"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSubscribe))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, "read the request: "+err.Error()+`; allowed is {"name": "ann", "applicationServerKey": "B…", "direct": false}`, http.StatusBadRequest)
		return
	}
	owner, err := base64.RawURLEncoding.DecodeString(ask.Key)
	if err == nil && ask.Key != "" {
		_, err = ecdh.P256().NewPublicKey(owner)
	}
	if err != nil {
		http.Error(w, "applicationServerKey is not a public key: 65 bytes in base64url", http.StatusBadRequest)
		return
	}
	if ask.Name == "" {
		ask.Name = string(randomBytes(16))
	}
	form := byte(pushAtHost)
	if ask.Direct {
		form = pushDirect
	}
	b, ok := s.push.browser(s.push.token(form, ask.Name, owner), r.Host)
	if !ok {
		http.Error(w, "the subscription could not be made", http.StatusInternalServerError)
		return
	}
	s.push.bury(b.token, false)
	writeJSON(w, b.subscription())
}

// unsubscribe is DELETE /_simulate/webpush/subscriptions/{token}: the last part
// of the endpoint. Until the simulator is started again, or the browser
// subscribes again, the subscription is gone.
func (s *Server) unsubscribe(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	if _, ok := s.push.browser(token, r.Host); !ok {
		http.Error(w, "there is no such subscription", http.StatusNotFound)
		return
	}
	s.push.bury(token, true)
	w.WriteHeader(http.StatusNoContent)
}

func (p *pushService) bury(token string, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dead {
		p.dead[token] = true
		return
	}
	delete(p.dead, token)
}

func (p *pushService) isDead(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead[token]
}
