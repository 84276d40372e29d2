package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/ledger/postgres"
	"github.com/seed-4b260dfd/notifier/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// cluster is some nodes over one Postgres and one Redis.
type cluster struct {
	t     testing.TB
	nodes []*server
	// database is the ledger's URL, past any proxy.
	database string
}

// newCluster starts n nodes of a folder that installation wrote. Their stores
// are at the URLs.
func newCluster(t testing.TB, bin, dir string, n int, database, ledger, claims string, env ...string) *cluster {
	t.Helper()
	if _, err := postgres.Migrate(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, database: database}
	for range n {
		c.nodes = append(c.nodes, newServer(t, bin, nodeFolder(t, dir, ledger, claims), env...))
	}
	c.each(func(s *server) { s.start() })
	if t.Failed() {
		t.FailNow()
	}
	return c
}

// nodeFolder copies an installation and has it use shared stores.
func nodeFolder(t testing.TB, dir, ledger, claims string) string {
	t.Helper()
	node := t.TempDir()
	if err := os.CopyFS(node, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(node, configName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	shared := strings.Replace(string(text), "ledger: sqlite:notifier.db", "ledger: "+ledger+"\nclaims: "+claims, 1)
	if shared == string(text) {
		t.Fatal("the installation does not name its ledger")
	}
	if err := os.WriteFile(name, []byte(shared), 0o600); err != nil {
		t.Fatal(err)
	}
	return node
}

// each runs do for every node at once.
func (c *cluster) each(do func(*server)) {
	var all sync.WaitGroup
	for _, s := range c.nodes {
		all.Go(func() { do(s) })
	}
	all.Wait()
}

// sound opens the ledger and looks for what must never be in it.
func (c *cluster) sound() {
	c.t.Helper()
	l, err := postgres.Open(c.t.Context(), c.database)
	if err != nil {
		c.t.Fatal(err)
	}
	defer l.Close()
	for _, wrong := range l.Check(c.t.Context()) {
		c.t.Errorf("check: %s", wrong)
	}
}

// atRest waits until nothing in the ledger waits or is on its way.
func (c *cluster) atRest() {
	c.t.Helper()
	l, err := postgres.Open(c.t.Context(), c.database)
	if err != nil {
		c.t.Fatal(err)
	}
	defer l.Close()
	var lanes map[notifier.Lane]time.Time
	if within(patience, func() bool {
		lanes, err = l.Lanes(c.t.Context())
		return err == nil && len(lanes) == 0
	}) {
		return
	}
	backlog, _ := l.Backlog(c.t.Context())
	c.t.Fatalf("after %s not everything has ended: the lanes are %v, %v; the backlog is %+v", patience, lanes, err, backlog)
}

// notes reads notifications from the ledger, without a node.
func (c *cluster) notes(ids []string) []notifier.Notification {
	c.t.Helper()
	l, err := postgres.Open(c.t.Context(), c.database)
	if err != nil {
		c.t.Fatal(err)
	}
	defer l.Close()
	out := make([]notifier.Notification, len(ids))
	for i, s := range ids {
		id, err := notifier.ParseID(s)
		if err != nil {
			c.t.Fatal(err)
		}
		n, err := l.Notification(c.t.Context(), "default", id)
		if err != nil {
			c.t.Fatal(err)
		}
		out[i] = *n
	}
	return out
}

// effectsOf is the providers' log of the addresses that a test used.
func effectsOf(sim *simulate.Server, addresses map[string]bool) (out []simulate.Entry) {
	for _, e := range sim.Effects() {
		if addresses[e.Address] {
			out = append(out, e)
		}
	}
	return out
}
