package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

// outageSize is how much goes through an outage of a test, or of a measurement.
type outageSize struct {
	orders    int // deliveries of each order
	few       int // those of priority high, bulk, and about to expire
	lasts     time.Duration
	probe     time.Duration
	inFlight  int
	perSecond int
}

const (
	outageNodes = 3
	outageAfter = 5
)

func sizeOfOutage() outageSize {
	if measured {
		return outageSize{orders: 50_000, few: 1000, lasts: 10 * time.Minute, probe: 10 * time.Second, inFlight: 100, perSecond: 2000}
	}
	return outageSize{orders: 200, few: 20, lasts: 3 * time.Second, probe: 300 * time.Millisecond, inFlight: 6, perSecond: 400}
}

// outages are the ways in which a provider is not there.
var outages = [...]struct {
	name string
	// fault is the simulator's, else begin and end are the network's.
	fault      *simulate.Fault
	begin, end func(*servertest.Proxy) error
	why        notifier.Reason
}{
	{name: "dial refused", why: notifier.ReasonBreaker,
		begin: func(p *servertest.Proxy) error { defer p.Cut(); return p.Refuse(true) },
		end:   func(p *servertest.Proxy) error { return p.Refuse(false) }},
	{name: "black hole", why: notifier.ReasonBreaker,
		begin: func(p *servertest.Proxy) error { p.Blackhole(true); return nil },
		end:   func(p *servertest.Proxy) error { p.Blackhole(false); return nil }},
	{name: "reset after the request", why: notifier.ReasonBreaker, fault: &simulate.Fault{Channel: "apns", Kind: simulate.FaultDropReply}},
	{name: "503", why: notifier.ReasonBreaker, fault: &simulate.Fault{Channel: "apns", Kind: simulate.FaultStatus, Status: 503, Reason: "ServiceUnavailable"}},
	{name: "403 on our key", why: notifier.ReasonBadCredentials, fault: &simulate.Fault{Channel: "apns", Kind: simulate.FaultStatus, Status: 403, Reason: "InvalidProviderToken"}},
}

// Three nodes with a backlog, and a provider that is not there for a while.
func TestOutages(t *testing.T) {
	t.Parallel()
	bin := buildBinary(t)
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-24s %8s %8s %8s %8s %8s %8s %10s %14s\n", "outage", "requests", "unknown", "bound", "dead", "rejected", "expired", "most in 1 s", "FCM p99 before, during")
	for _, o := range outages {
		t.Run(strings.ReplaceAll(o.name, " ", "_"), func(t *testing.T) {
			w := newOutageWorld(t, bin)
			w.bystanders(1)
			w.warm()
			w.must(func() error {
				if o.fault != nil {
					w.sim.SetFaults([]simulate.Fault{*o.fault})
					return nil
				}
				return o.begin(w.proxy)
			})
			began := time.Now()
			w.load()
			w.awaitOpen(o.why)
			w.bystanders(2)
			<-time.After(time.Until(began.Add(w.lasts)))
			w.must(func() error {
				if o.fault != nil {
					w.sim.SetFaults(nil)
					return nil
				}
				return o.end(w.proxy)
			})
			ended := time.Now()
			w.drain()
			w.awaitClosed()
			w.check(&table, o.name, ended.Sub(began), ended)
		})
	}
	t.Log(table.String())
}

// outageWorld is one outage's nodes and what was sent through them.
type outageWorld struct {
	*cluster
	outageSize
	sim   *simulate.Server
	proxy *servertest.Proxy
	// ids are those of each type, and of the bystanders before and during it.
	ids map[string][]string
	n   int
}

func newOutageWorld(t *testing.T, bin string) *outageWorld {
	w := &outageWorld{outageSize: sizeOfOutage(), sim: startProviders(t), ids: map[string][]string{}}
	w.proxy = servertest.NewProxy(t, strings.TrimPrefix(w.sim.APNsURL(), "https://"))
	policy := func(order notifier.Order, channel, more string) string {
		return fmt.Sprintf("order: %s\ndescription: For a test.\nchannels: [{channel: %s, template: note, send_timeout: 1s}]\ndata: {text: {required: true}}\nlease: 10s\n"+
			"retry: {initial: 100ms, factor: 2, max: 1s}\n%s", order, channel, more)
	}
	dir := installation(t, w.sim, w.inFlight, map[string]string{
		"claim": policy(notifier.OrderClaimFirst, "apns", "expires_after: 2h\n"),
		"send":  policy(notifier.OrderSendFirst, "apns", "expires_after: 2h\n"),
		"high":  policy(notifier.OrderSendFirst, "apns", "expires_after: 2h\npriority: high\n"),
		"bulk":  policy(notifier.OrderSendFirst, "apns", "expires_after: 2h\npriority: bulk\n"),
		"soon":  policy(notifier.OrderSendFirst, "apns", fmt.Sprintf("expires_after: %s\n", w.lasts/2)),
		"other": policy(notifier.OrderSendFirst, "fcm", "expires_after: 2h\n"),
	})
	w.limit(t, dir)
	database := servertest.SharedPostgres(t).Database(t)
	w.cluster = newCluster(t, bin, dir, outageNodes, database, database, servertest.SharedRedis(t).URL())
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: patience}
	t.Cleanup(kept.CloseIdleConnections)
	for _, s := range w.nodes {
		s.client = kept
	}
	return w
}

// limit sets the limits of the account that the outage is for, puts the proxy
// in its way, and adds one that goes on.
func (w *outageWorld) limit(t *testing.T, dir string) {
	name := filepath.Join(dir, configName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f := w.sim.Files()
	limited := strings.NewReplacer(
		w.sim.APNsURL(), w.proxy.URL(w.sim.APNsURL()),
		"environment: production,", fmt.Sprintf("environment: production, max_per_second: %d, breaker: {after: %d, probe: %s},", w.perSecond, outageAfter, w.probe),
		"channels:\n", fmt.Sprintf("channels:\n  fcm: {shop: {credentials_file: %q, endpoint: %q, ca_file: %q, allow_private: true}}\n", f.FCMCredentialsFile, w.sim.FCMURL(), f.CAFile),
	).Replace(string(text))
	if err := os.WriteFile(name, []byte(limited), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *outageWorld) must(do func() error) {
	w.t.Helper()
	if err := do(); err != nil {
		w.t.Fatal(err)
	}
}

// send sends n messages of a type through the nodes, several at once.
func (w *outageWorld) send(typ, channel string, n, at int) (ids []string) {
	ids = make([]string, n)
	work := make(chan int)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for i := range work {
				address := to(w.sim, "apns", at+i)
				if channel == "fcm" {
					address = map[string][]map[string]string{"fcm": {{"token": fmt.Sprintf("fGh-12345678:APA91b%0120d", at+i)}}}
				}
				id, err := w.nodes[i%len(w.nodes)].send(message{Key: fmt.Sprintf("%s-%d", typ, at+i), Type: typ, Recipient: fmt.Sprintf("u_%d", at+i),
					To: address, Data: map[string]string{"text": "hello"}})
				if err != nil {
					w.t.Error(err)
				}
				ids[i] = id
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
	return ids
}

// load accepts the backlog while the provider is away.
func (w *outageWorld) load() {
	for _, typ := range []string{"claim", "soon", "bulk", "send", "high"} {
		n := w.few
		if typ == "claim" || typ == "send" {
			n = w.orders
		}
		w.ids[typ] = append(w.ids[typ], w.send(typ, "apns", n, w.n)...)
		w.n += n
	}
}

// warm has every node connected, so that the outage meets requests on the wire.
func (w *outageWorld) warm() {
	const n = 10 * outageNodes
	w.ids["send"] = w.send("send", "apns", n, w.n)
	w.n += n
	w.atRest()
}

// bystanders go through another account, before the outage and during it.
func (w *outageWorld) bystanders(phase int) {
	const n = 100
	w.ids[fmt.Sprint("other", phase)] = w.send("other", "fcm", n, phase*n)
}

// awaitOpen waits until every node says what its account waits for.
func (w *outageWorld) awaitOpen(why notifier.Reason) {
	w.t.Helper()
	newest := w.ids["bulk"][len(w.ids["bulk"])-1]
	for _, s := range w.nodes {
		eventually(w.t, "a node says that the account is degraded", s.shut)
		eventually(w.t, "it shows what a delivery waits for", func() bool {
			n, ok := s.notification(newest)
			return ok && n.Deliveries[0].State == notifier.StatePending && n.Deliveries[0].Reason == why
		})
	}
}

func (w *outageWorld) awaitClosed() {
	w.t.Helper()
	for i, s := range w.nodes {
		// A node that had nothing to probe with stays open until it has.
		at := 1_000_000 + i
		eventually(w.t, "the breaker is closed", func() bool {
			if !s.shut() {
				return true
			}
			if id, err := s.send(message{Key: fmt.Sprint("probe-", at), Type: "send", Recipient: "u_probe", To: to(w.sim, "apns", at), Data: map[string]string{"text": "hello"}}); err == nil {
				w.ids["send"] = append(w.ids["send"], id)
			}
			at += outageNodes
			return false
		})
	}
	w.atRest()
}

// drain waits until the backlog has gone, as fast as it may.
func (w *outageWorld) drain() {
	w.t.Helper()
	l, err := postgres.Open(w.t.Context(), w.database)
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.Close()
	takes := 2 * time.Second * time.Duration(2*w.orders/w.perSecond)
	if !within(takes, func() bool {
		lanes, err := l.Lanes(w.t.Context())
		return err == nil && len(lanes) == 0
	}) {
		w.t.Logf("not everything has ended %v after the outage", takes)
	}
	w.atRest()
}

// shut reports whether a node says that the account makes no calls.
func (s *server) shut() bool {
	parts, ready := s.degraded()
	return ready && slices.Contains(parts, "account:apns.shop")
}

// check holds what became of all to the bounds, and adds a line to the table.
func (w *outageWorld) check(table *strings.Builder, name string, lasted time.Duration, ended time.Time) {
	t := w.t
	t.Helper()
	states := map[string]map[notifier.State]int{}
	var all []notifier.Notification
	latency := map[string][]time.Duration{}
	for typ, ids := range w.ids {
		states[typ] = map[notifier.State]int{}
		notes := w.notes(ids)
		all = append(all, notes...)
		for i := range notes {
			d := &notes[i].Deliveries[0]
			states[typ][d.State]++
			for _, a := range d.Attempts {
				if a.StartedAt.After(notes[i].ExpiresAt) {
					t.Errorf("%s: an attempt began %v after its expiry", d.ID, a.StartedAt.Sub(notes[i].ExpiresAt))
				}
			}
			if len(d.Attempts) > 0 {
				latency[typ] = append(latency[typ], d.Attempts[len(d.Attempts)-1].FinishedAt.Sub(notes[i].AcceptedAt))
			}
		}
	}
	entries := w.sim.Effects()
	for _, b := range checkLog(entries, all) {
		t.Errorf("%s", b)
	}
	w.sound()

	// Each node by itself: what was under way, what opened the breaker, and a probe
	// for each probe's time, with one at either end.
	bound := outageNodes * (w.inFlight + outageAfter + int(lasted/w.probe) + 2)
	unknown := states["claim"][notifier.StateUnknown]
	if unknown > bound {
		t.Errorf("%d claim-first deliveries are unknown, want at most %d", unknown, bound)
	}
	dead, rejected, expired := 0, 0, states["soon"][notifier.StateExpired]
	for typ, of := range states {
		dead, rejected = dead+of[notifier.StateDead], rejected+of[notifier.StateRejected]
		if got := of[notifier.StateSent]; typ != "soon" && typ != "claim" && got != len(w.ids[typ]) {
			t.Errorf("%s: %v, want all %d sent", typ, of, len(w.ids[typ]))
		}
	}
	if dead+rejected > 0 {
		t.Errorf("%d dead, %d rejected, want none", dead, rejected)
	}
	if got := states["claim"][notifier.StateSent]; got != len(w.ids["claim"])-unknown {
		t.Errorf("claim: %v, want all sent that are not unknown", states["claim"])
	}
	most := w.flood(entries, ended)
	before, during := p99(latency["other1"]), p99(latency["other2"])
	if measured && during > before*6/5 {
		t.Errorf("FCM's p99 is %v during the outage, and was %v before", during, before)
	}
	fmt.Fprintf(table, "%-24s %8d %8d %8d %8d %8d %8d %10d %14s, %s\n", name, len(entries)-2*100, unknown, bound, dead, rejected, expired, most,
		before.Round(time.Millisecond), during.Round(time.Millisecond))
}

// flood looks at what came when the provider was back: in order of priority, and
// no faster than it may. It returns the most that came within a second.
func (w *outageWorld) flood(entries []simulate.Entry, from time.Time) (most int) {
	type arrival struct {
		at  time.Time
		typ string
	}
	typeOf := map[string]string{}
	for typ, ids := range w.ids {
		for _, n := range w.notes(ids) {
			typeOf[n.Deliveries[0].ID.String()] = typ
		}
	}
	var flood []arrival
	place := map[string][]int{}
	for _, e := range entries {
		if e.Channel == "apns" && e.Time.After(from) {
			flood = append(flood, arrival{e.Time, typeOf[e.Delivery]})
		}
	}
	slices.SortFunc(flood, func(a, b arrival) int { return a.at.Compare(b.at) })
	for i, a := range flood {
		place[a.typ] = append(place[a.typ], i)
	}
	// A machine that stalls lets through late what left in time: one second may
	// have more then, several in a row have not.
	const long = 3
	mostIn := func(d time.Duration) (most int) {
		end := 0
		for i := range flood {
			for ; end < len(flood) && flood[end].at.Sub(flood[i].at) < d; end++ {
			}
			most = max(most, end-i)
		}
		return most
	}
	most = mostIn(time.Second)
	if got := mostIn(long * time.Second); got > long*w.perSecond+w.perSecond/2 {
		w.t.Errorf("%d calls within %d s, want at most %d a second", got, long, w.perSecond)
	}
	high, normal, bulk := place["high"], slices.Concat(place["send"], place["claim"]), place["bulk"]
	if len(high) == 0 || len(normal) == 0 || len(bulk) == 0 {
		w.t.Errorf("got %d calls of high, %d of normal, %d of bulk after the outage", len(high), len(normal), len(bulk))
		return most
	}
	slices.Sort(normal)
	before := func(list []int, place int) int { n, _ := slices.BinarySearch(list, place); return n }
	// High goes first, but for what has been a probe and waits for its next try.
	// Bulk has its turns beside normal, an eighth of them.
	if half := high[len(high)/2]; half > normal[len(normal)/2] {
		w.t.Errorf("half of high was sent after %d calls, half of normal before", half)
	}
	if half := bulk[len(bulk)/2]; before(normal, half) < 2*before(bulk, half) {
		w.t.Errorf("when %d of bulk were sent, %d of normal were, want twice as many or more", before(bulk, half), before(normal, half))
	}
	w.t.Logf("half of high after %d calls, of normal after %d, of bulk after %d", high[len(high)/2], normal[len(normal)/2], bulk[len(bulk)/2])
	return most
}
