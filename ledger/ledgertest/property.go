package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

var propertyRows = propertySeeds(6)

func propertySeeds(n int) []row {
	var rows []row
	for seed := range n {
		rows = append(rows, row{fmt.Sprintf("any sequence of transitions keeps the promise, seed %d", seed), func(w *world) {
			newChaos(w, uint64(seed)).run(300)
		}})
	}
	return rows
}

// chaos is some workers that lose replies, pause, die and come back late, over
// a provider that counts what it received.
type chaos struct {
	*world
	rand *rand.Rand
	// held is every lease that a worker ever thought was its own.
	held []*held
	keys int
	ids  []notifier.DeliveryID
	// received counts the requests that may have taken effect, by delivery.
	received map[notifier.DeliveryID]int
	fences   map[notifier.DeliveryID]int64
	// ends is how deliveries were seen to have ended.
	ends map[notifier.DeliveryID]notifier.State
}

type held struct {
	notifier.Leased
	owner     notifier.Owner
	permitted bool
	called    bool
	done      bool
}

func newChaos(w *world, seed uint64) *chaos {
	return &chaos{
		world: w, rand: rand.New(rand.NewPCG(seed, 1)), received: map[notifier.DeliveryID]int{},
		fences: map[notifier.DeliveryID]int64{}, ends: map[notifier.DeliveryID]notifier.State{},
	}
}

func (c *chaos) chance(percent int) bool { return c.rand.IntN(100) < percent }

func (c *chaos) owner() notifier.Owner {
	return [...]notifier.Owner{me, you, "third"}[c.rand.IntN(3)]
}

func (c *chaos) run(steps int) {
	for i := range steps {
		c.step()
		if i%25 == 0 || c.Failed() {
			c.look()
		}
		if c.Failed() {
			c.Fatalf("after %d steps", i+1)
		}
	}
	// Faults stop; everybody who was late comes back, and time does the rest.
	for range 4 * maxAttempts {
		for _, h := range c.held {
			c.finish(h)
		}
		c.pass(2 * leaseFor)
		c.sweep(false)
		c.take(c.lease(100, me), me)
	}
	c.pass(2 * expiry)
	c.sweep(true)
	c.expire()
	c.look()
	for _, id := range c.ids {
		if s := c.state(id); !s.State.Finished() {
			c.Errorf("%v is %s at the end", id, s.State)
		}
	}
}

func (c *chaos) step() {
	switch n := c.rand.IntN(100); {
	case n < 20:
		c.acceptSome()
	case n < 40:
		o := c.owner()
		c.take(c.lease(1+c.rand.IntN(3), o), o)
	case n < 80:
		if len(c.held) > 0 {
			c.act(c.held[c.rand.IntN(len(c.held))])
		}
	case n < 85:
		c.pass(time.Duration(c.rand.Int64N(int64(leaseFor))))
	case n < 90:
		c.sweep(c.chance(10))
	case n < 92:
		c.expire()
	case n < 95 && len(c.ids) > 0:
		c.cancel(c.ids[c.rand.IntN(len(c.ids))])
	default:
		c.pass(-time.Second) // the clock is set back
	}
}

func (c *chaos) acceptSome() {
	order := claimFirst
	if c.chance(50) {
		order = sendFirst
	}
	if c.chance(80) {
		c.keys++
	}
	in := c.intent(strconv.Itoa(c.keys), order, 1+c.rand.IntN(2))
	if c.chance(30) {
		in.Lease = notifier.FirstLease{Owner: c.owner(), Count: 1}
	}
	s := c.accept(in)[0]
	if s.Replayed {
		return
	}
	for i := range in.Deliveries {
		c.ids = append(c.ids, notifier.DeliveryID{Notification: s.ID, Ordinal: uint16(i)})
	}
	c.take(s.Leased, in.Lease.Owner)
}

// take notes leases, and that no fence was ever given out twice.
func (c *chaos) take(leased []notifier.Leased, o notifier.Owner) {
	for _, l := range leased {
		if l.Fence <= c.fences[l.ID] {
			c.Errorf("%v was leased under fence %d after %d", l.ID, l.Fence, c.fences[l.ID])
		}
		c.fences[l.ID] = l.Fence
		c.held = append(c.held, &held{Leased: l, owner: o})
	}
}

// act lets the holder of a lease, which may be long past, do one thing more.
func (c *chaos) act(h *held) {
	switch {
	case h.done:
		c.finish(h) // says it again
	case h.Order == claimFirst && !h.permitted:
		if c.chance(20) {
			c.giveBack(h.owner, refused(h.Hold()))
			h.done = true
			return
		}
		granted := c.permit(h.owner, h.Hold())
		if c.chance(10) {
			return // the answer is lost: no call
		}
		h.permitted = granted
		h.done = !granted
	case !h.called:
		if c.chance(15) { // the gate did not open
			if v := c.giveBack(h.owner, refused(h.Hold())); v.Verdict == notifier.VerdictFenced {
				c.witness(h.owner, lateUnsent(&h.Leased))
			}
			h.done = true
			return
		}
		h.called = true
		c.received[h.ID]++
	default:
		c.finish(h)
	}
}

// finish tells the ledger how a call ended.
func (c *chaos) finish(h *held) {
	if !h.called {
		return
	}
	h.done = true
	if h.Order == sendFirst && h.Fence%2 == 0 {
		if v := c.giveBack(h.owner, lost(h.Hold())); v.Verdict == notifier.VerdictFenced {
			c.witness(h.owner, notifier.Evidence{Hold: h.Hold(), Kind: notifier.EvidenceLate})
		}
		return
	}
	if v := c.complete(h.owner, c.sent(h.Hold())); v.Verdict == notifier.VerdictFenced {
		c.witness(h.owner, lateSent(&h.Leased, c.clock.Now()))
	}
}

// look asserts what must hold at every moment.
func (c *chaos) look() {
	c.Helper()
	for _, wrong := range c.l.Check(c.ctx) {
		c.Errorf("check: %s", wrong)
	}
	for _, id := range c.ids {
		n := c.read(id.Notification)
		d := n.Deliveries[id.Ordinal]
		if n.Order == claimFirst && c.received[id] > 1 {
			c.Errorf("claim-first %v was received %d times", id, c.received[id])
		}
		if d.State.Finished() && d.PossibleEffects < c.received[id] && !c.underWay(id) {
			c.Errorf("%v is %s with %d possible effects and was received %d times", id, d.State, d.PossibleEffects, c.received[id])
		}
		if d.State == notifier.StateSent && c.received[id] == 0 {
			c.Errorf("%v is sent and was never received", id)
		}
		before, seen := c.ends[id]
		if seen && before != d.State && !(before == notifier.StateUnknown && d.State == notifier.StateSent) {
			c.Errorf("%v was %s and is %s", id, before, d.State)
		}
		if d.State.Finished() {
			c.ends[id] = d.State
		}
	}
}

// underWay says whether a call was made of which the ledger has no word yet.
func (c *chaos) underWay(id notifier.DeliveryID) bool {
	for _, h := range c.held {
		if h.ID == id && h.called && !h.done {
			return true
		}
	}
	return false
}
