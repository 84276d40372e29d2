package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/api"
	"github.com/seed-4b260dfd/notifier/caps"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/webhook"
	"github.com/seed-4b260dfd/notifier/claims"
	"github.com/seed-4b260dfd/notifier/delivery"
	"github.com/seed-4b260dfd/notifier/ledger/sqlite"
	"github.com/seed-4b260dfd/notifier/policy"
	"github.com/seed-4b260dfd/notifier/templates"
)

// A 202 is a promise: a hundred times the server dies the moment it was given,
// and the next one knows the notification and delivers it. Each time a message
// of the other order was taken just before.
func TestDurable_KilledAfterEveryAnswer(t *testing.T) {
	t.Parallel()
	const kills = 100
	sim := startProviders(t)
	dir := installation(t, sim, 0, map[string]string{
		"claim_first": quickPolicy(notifier.OrderClaimFirst, 0),
		"send_first":  quickPolicy(notifier.OrderSendFirst, 0),
	})
	s := newServer(t, buildBinary(t), dir)
	s.start()
	var ids []string
	permitted := map[string]bool{}
	for i := range kills {
		types := []string{"claim_first", "send_first"}
		if i%2 == 1 {
			slices.Reverse(types)
		}
		for j, typ := range types {
			m := message{Key: fmt.Sprintf("key-%d-%d", i, j), Type: typ, Recipient: fmt.Sprintf("u_%d", i),
				To: to(sim, []string{"apns", "webhook"}[i/2%2], 2*i+j), Data: map[string]string{"text": "hello"}}
			id, status, err := s.post(m)
			if err != nil || status != http.StatusAccepted {
				t.Fatalf("message %d of round %d was answered %d, %v", j, i, status, err)
			}
			ids = append(ids, id)
		}
		s.kill()
		for _, l := range openLeases(t, s.ledger()) {
			permitted[l.id] = permitted[l.id] || l.permitted
		}
		s.start()
		for _, id := range ids[2*i:] {
			if _, ok := s.notification(id); !ok {
				t.Fatalf("after kill %d the notification %s is gone", i, id)
			}
		}
	}
	notes := s.settled(ids)
	sent := map[notifier.Order]int{}
	for i := range notes {
		d := notes[i].Deliveries[0]
		switch {
		case d.State == notifier.StateSent:
			sent[notes[i].Order]++
		case notes[i].Order == notifier.OrderClaimFirst && d.State == notifier.StateUnknown && permitted[d.ID.String()]:
			// The kill came between permit and outcome: the one loss that this order has.
		default:
			t.Errorf("%s %s ended %s %s", notes[i].Order, d.ID, d.State, d.Reason)
		}
	}
	s.checkPromise(sim.Effects(), notes)
	t.Logf("%d kills; sent: %v; claim-first permits open at a kill: %d", kills, sent, kills-sent[notifier.OrderClaimFirst])
}

// notSynced is what the test below says of an early answer; the one after it
// looks for it.
const notSynced = "its commit was in the log and not on the disk"

// Whoever has a 202 may lose the power a moment later: at every one of them
// the writes of its commit have been synced. What syncs is the real file
// layer under the real ledger, engine and handler.
func TestDurable_SyncedBeforeEveryAnswer(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 10
	recorder := recordSyncs(t)
	early := make(chan string, callers*each)
	handler := stackOver(t, sqlite.WithVFS(recorder.name))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		handler.ServeHTTP(&onStatus{ResponseWriter: w, look: func(status int) {
			if why := recorder.durable(key); status == http.StatusAccepted && why != "" {
				early <- key + ": " + why
			}
		}}, r)
	}))
	defer srv.Close()
	s := &server{t: t, base: srv.URL}
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range each {
				m := message{Key: fmt.Sprintf("key-%d-%d", c, i), Type: "note", Recipient: "u_1", Data: map[string]string{"text": "hello"},
					To: map[string][]map[string]string{"webhook": {{"url": fmt.Sprintf("https://example.com/%d/%d", c, i)}}}}
				if _, status, err := s.post(m); err != nil || status != http.StatusAccepted {
					t.Errorf("%s was answered %d, %v", m.Key, status, err)
				}
			}
		})
	}
	group.Wait()
	close(early)
	for e := range early {
		t.Errorf("a 202 left too early: %s", e)
	}
	commits, writes, synced := recorder.counts()
	if commits == 0 {
		t.Errorf("the recorder saw no commit at all")
	}
	t.Logf("%d answers, %d commits, %d of %d writes to the log synced", callers*each, commits, synced, writes)
}

// The test above has to be able to fail: it does in a build whose ledger does
// not wait for the disk.
func TestDurable_SeesAMissingSync(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "test", "-count=1", "-tags", "mutant_sync_off", "-run", "^TestDurable_SyncedBeforeEveryAnswer$", ".").CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !bytes.Contains(out, []byte(notSynced)) {
		t.Errorf("a build with synchronous=OFF passes: %v\n%s", err, out)
	}
}

// onStatus calls look with the status before it is on its way.
type onStatus struct {
	http.ResponseWriter
	look func(status int)
}

func (w *onStatus) WriteHeader(status int) {
	w.look(status)
	w.ResponseWriter.WriteHeader(status)
}

// stackOver is everything from the HTTP handler down to a ledger in a file,
// running, with a provider that takes whatever it is given.
func stackOver(t *testing.T, opts ...sqlite.Option) http.Handler {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ledger, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "ledger.db"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	policies, problems := policy.Load(fstest.MapFS{"note.yaml": {Data: []byte(
		"order: send_first\nexpires_after: 1h\nchannels: [{channel: webhook, account: out}]\ndata: {text: {required: true}}\n")}}, ".")
	rendered, more := templates.Load(fstest.MapFS{"note/webhook.yaml": {Data: []byte("body: {text: \"{{.text}}\"}\n")}}, ".")
	for _, p := range append(problems, more...) {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	engine, err := delivery.New(delivery.Config{
		Ledger: ledger, Claims: claims.NewMemory(), Caps: caps.NewMemory(), Policies: policies, Templates: rendered,
		Kinds:     map[notifier.Channel]channels.Kind{notifier.ChannelWebhook: webhook.Kind{}},
		Accounts:  map[notifier.Channel]map[string]delivery.Account{notifier.ChannelWebhook: {"out": {Channel: takesAll{}}}},
		SoleOwner: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, ledger.Close()); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the engine accepts", func() bool {
		_, err := engine.Ready(ctx)
		return err == nil
	})
	return api.NewHandler(api.Config{Accepter: engine, Reader: ledger, Waiter: engine, Health: engine})
}

// takesAll is a provider that takes everything.
type takesAll struct{}

func (takesAll) Send(_ context.Context, c *channels.Call) channels.Result {
	if err := c.Guard.Pass(); err != nil {
		return channels.Result{Outcome: notifier.OutcomeNotSent, Reason: notifier.ReasonGate}
	}
	return channels.Result{Outcome: notifier.OutcomeSent, ProviderStatus: "200"}
}

func (takesAll) Close() error { return nil }
