package ledgertest

import (
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// suppress places one of the tenant.
func (w *world) suppress(s notifier.Suppression) notifier.Suppression {
	w.Helper()
	if s.Tenant == "" {
		s.Tenant = tenant
	}
	if s.Cause == "" {
		s.Cause = notifier.CauseOperator
	}
	got, err := w.l.Suppress(w.ctx, s)
	if err != nil {
		w.Fatalf("suppress: %v", err)
	}
	return got
}

func (w *world) unsuppress(id string) (s notifier.Suppression, ended bool) {
	w.Helper()
	s, ended, err := w.l.Unsuppress(w.ctx, tenant, id, "bob", "a mistake")
	if err != nil {
		w.Fatalf("unsuppress: %v", err)
	}
	return s, ended
}

func (w *world) wantSuppressions(f notifier.SuppressionFilter, want ...notifier.Suppression) {
	w.Helper()
	if f.Tenant == "" {
		f.Tenant = tenant
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	got, err := w.l.Suppressions(w.ctx, f)
	if err != nil {
		w.Fatalf("suppressions: %v", err)
	}
	diff(w, "suppressions", got, want)
}

// to is an intent to one address.
func (w *world) to(key, address string) notifier.Intent {
	in := w.intent(key, sendFirst, 1)
	in.Deliveries[0].Address = notifier.Address{Value: address}
	return in
}

// wantHeld accepts an intent twice, once leased at once and once later, and
// checks by which suppression both are held; empty: by none.
func (w *world) wantHeld(in notifier.Intent, want string) {
	w.Helper()
	first := in
	first.Key, first.Lease = in.Key+"/first", notifier.FirstLease{Owner: me, Count: 1}
	if got := w.accept(first)[0].Leased; len(got) != 1 || got[0].Suppressed != want {
		w.Errorf("%s, leased with its acceptance: got %q of %d, want %q", in.Key, suppressedBy(got), len(got), want)
	}
	w.accept(in)
	got, err := w.l.Lease(w.ctx, in.Deliveries[0].Lane, 10, me)
	if err != nil || len(got) != 1 || got[0].Suppressed != want {
		w.Errorf("%s, leased: got %q of %d, %v; want %q", in.Key, suppressedBy(got), len(got), err, want)
	}
}

func suppressedBy(leased []notifier.Leased) string {
	if len(leased) == 0 {
		return ""
	}
	return leased[0].Suppressed
}

// dead is the end of a delivery whose address the provider holds for dead.
func (w *world) dead(h notifier.Hold, address string, since time.Time) notifier.Completion {
	return notifier.Completion{Hold: h, State: notifier.StateRejected, Reason: notifier.ReasonInvalidAddress, Called: true,
		Attempt: notifier.Attempt{Outcome: notifier.OutcomeInvalidAddress, Reason: notifier.ReasonInvalidAddress, ProviderStatus: "410"},
		Suppress: &notifier.Suppression{Tenant: tenant, Address: notifier.Address{Value: address}, Channel: lane.Channel,
			Cause: notifier.CauseInvalidAddress, Evidence: "410 " + foul, By: notifier.ByProvider, Since: since}}
}

// leasedTo leases a delivery to an address that nothing holds.
func (w *world) leasedTo(key, address string) notifier.Leased {
	w.Helper()
	in := w.to(key, address)
	in.Lease = notifier.FirstLease{Owner: me, Count: 1}
	return w.accept(in)[0].Leased[0]
}

var suppressionRows = []row{
	{"it has an id and a time, and is listed", func(w *world) {
		s := notifier.Suppression{Tenant: tenant, Address: notifier.Address{Value: "a@example.com"}, Channel: notifier.ChannelEmail, Type: "digest",
			Cause: notifier.CauseComplaint, Evidence: "a letter", By: "ann"}
		got := w.suppress(s)
		if !strings.HasPrefix(got.ID, notifier.SuppressionPrefix) || len(got.ID) < 20 {
			w.Errorf("got the id %q", got.ID)
		}
		s.ID, s.At, s.Since = got.ID, w.clock.Now(), w.clock.Now()
		diff(w, "suppression", got, s)
		w.wantSuppressions(notifier.SuppressionFilter{}, s)
	}},
	{"the same again is the first, and another is another", func(w *world) {
		first := w.suppress(notifier.Suppression{Recipient: "u_1", Evidence: "a", By: "ann"})
		w.pass(time.Minute)
		diff(w, "repeat", w.suppress(notifier.Suppression{Recipient: "u_1", Evidence: "b", By: "bob", Since: w.clock.Now()}), first)
		all := []notifier.Suppression{first}
		for _, s := range []notifier.Suppression{
			{Address: notifier.Address{Value: "u_1"}}, {Recipient: "u_2"}, {Recipient: "u_1", Channel: lane.Channel},
			{Recipient: "u_1", Type: "digest"}, {Recipient: "u_1", Cause: notifier.CauseStop},
		} {
			w.pass(time.Millisecond)
			all = append([]notifier.Suppression{w.suppress(s)}, all...)
		}
		w.suppress(notifier.Suppression{Tenant: "other", Recipient: "u_1"})
		w.wantSuppressions(notifier.SuppressionFilter{}, all...)
	}},
	{"undone it is over, said again or not, and may be placed anew", func(w *world) {
		s := w.suppress(notifier.Suppression{Recipient: "u_42", By: "ann"})
		w.pass(time.Minute)
		over := s
		over.EndedAt, over.EndedBy, over.EndedWhy = w.clock.Now(), "bob", "a mistake"
		for i := range 2 {
			got, ended := w.unsuppress(s.ID)
			diff(w, "undone", got, over)
			if ended != (i == 0) {
				w.Errorf("call %d: got ended %v", i, ended)
			}
			w.pass(time.Minute)
		}
		w.wantSuppressions(notifier.SuppressionFilter{})
		w.wantHeld(w.intent("k", sendFirst, 1), "")
		anew := w.suppress(notifier.Suppression{Recipient: "u_42"})
		if anew.ID == s.ID {
			w.Error("placed anew it has the id of the one that is over")
		}
		w.wantSuppressions(notifier.SuppressionFilter{}, anew)
		for _, id := range []string{"sup_none", anew.ID} {
			if _, _, err := w.l.Unsuppress(w.ctx, "other", id, "bob", ""); !notFound(err) {
				w.Errorf("%s of another tenant: got %v, want not found", id, err)
			}
		}
	}},
	{"the list has filters, and goes on behind a cursor", func(w *world) {
		mail := w.suppress(notifier.Suppression{Address: notifier.Address{Value: "Ann@Example.com"}, Channel: notifier.ChannelEmail, Cause: notifier.CauseComplaint})
		w.pass(time.Millisecond)
		person := w.suppress(notifier.Suppression{Recipient: "u_1", Type: "digest"})
		w.pass(time.Millisecond)
		phone := w.suppress(notifier.Suppression{Address: notifier.Address{Value: "+15550001"}, Channel: notifier.ChannelSMS, Cause: notifier.CauseStop})
		for _, f := range []struct {
			f    notifier.SuppressionFilter
			want []notifier.Suppression
		}{
			{notifier.SuppressionFilter{}, []notifier.Suppression{phone, person, mail}},
			{notifier.SuppressionFilter{Limit: 2}, []notifier.Suppression{phone, person}},
			{notifier.SuppressionFilter{Before: person.ID}, []notifier.Suppression{mail}},
			{notifier.SuppressionFilter{Address: "ann@example.com"}, []notifier.Suppression{mail}},
			{notifier.SuppressionFilter{Recipient: "u_1"}, []notifier.Suppression{person}},
			{notifier.SuppressionFilter{Recipient: "u_1", Channel: notifier.ChannelSMS}, nil},
			{notifier.SuppressionFilter{Channel: notifier.ChannelSMS}, []notifier.Suppression{phone}},
			{notifier.SuppressionFilter{Type: "digest"}, []notifier.Suppression{person}},
			{notifier.SuppressionFilter{Cause: notifier.CauseComplaint}, []notifier.Suppression{mail}},
			{notifier.SuppressionFilter{Tenant: "other"}, nil},
		} {
			w.wantSuppressions(f.f, f.want...)
		}
	}},
	{"what is leased says what holds for it", func(w *world) {
		free := w.to("free", "free")
		for _, s := range []notifier.Suppression{
			{Tenant: "other", Recipient: free.Recipient}, {Address: notifier.Address{Value: free.Recipient}}, {Recipient: "free"},
			{Address: notifier.Address{Value: "free"}, Channel: notifier.ChannelFCM}, {Recipient: free.Recipient, Type: "digest"},
		} {
			w.suppress(s)
		}
		w.wantHeld(free, "")
		w.wantHeld(w.to("address", "a"), w.suppress(notifier.Suppression{Address: notifier.Address{Value: "a"}}).ID)
		w.wantHeld(w.to("channel", "b"), w.suppress(notifier.Suppression{Address: notifier.Address{Value: "b"}, Channel: lane.Channel}).ID)
		w.wantHeld(w.to("type", "c"), w.suppress(notifier.Suppression{Address: notifier.Address{Value: "c"}, Type: free.Type}).ID)
		w.wantHeld(w.to("mailbox", "Ann@Example.com"), w.suppress(notifier.Suppression{Address: notifier.Address{Value: "ann@example.COM"}}).ID)
		other := w.to("recipient", "d")
		other.Recipient = "u_7"
		w.wantHeld(other, w.suppress(notifier.Suppression{Recipient: "u_7"}).ID)
	}},
	{"one of a batch is held and not its neighbours", func(w *world) {
		s := w.suppress(notifier.Suppression{Address: notifier.Address{Value: "token-of-k-b"}})
		w.accept(w.intent("k", sendFirst, 3))
		for _, l := range w.lease(10, me) {
			if want := map[uint16]string{1: s.ID}[l.ID.Ordinal]; l.Suppressed != want {
				w.Errorf("delivery %d: got %q, want %q", l.ID.Ordinal, l.Suppressed, want)
			}
		}
	}},
	{"an address that was registered after it died is another", func(w *world) {
		died := w.clock.Now().Add(-time.Hour)
		s := w.suppress(notifier.Suppression{Address: notifier.Address{Value: "a"}, Cause: notifier.CauseInvalidAddress, Since: died})
		for key, c := range map[string]struct {
			registered time.Time
			want       string
		}{
			"not known": {time.Time{}, s.ID}, "before": {died.Add(-time.Second), s.ID}, "just then": {died, s.ID}, "after": {died.Add(time.Second), ""},
		} {
			in := w.to(key, "a")
			in.Deliveries[0].Address.RegisteredAt = c.registered
			w.wantHeld(in, c.want)
		}
		stop := w.suppress(notifier.Suppression{Address: notifier.Address{Value: "a"}, Cause: notifier.CauseStop, Since: died})
		in := w.to("stopped", "a")
		in.Deliveries[0].Address.RegisteredAt = died.Add(time.Second)
		w.wantHeld(in, stop.ID)
	}},
	{"it is placed with an outcome, once", func(w *world) {
		l := w.leasedTo("k", "a")
		died := w.clock.Now().Add(-time.Hour)
		c := w.dead(l.Hold(), "a", died)
		if v := w.complete(me, c).Verdict; v != notifier.VerdictDone {
			w.Errorf("got %v, want done", v)
		}
		w.wantState(l.ID, notifier.StateRejected, notifier.ReasonInvalidAddress, 0)
		got, err := w.l.Suppressions(w.ctx, notifier.SuppressionFilter{Tenant: tenant, Address: "a", Limit: 10})
		if err != nil || len(got) != 1 || got[0].Channel != lane.Channel || got[0].Cause != notifier.CauseInvalidAddress || !got[0].Since.Equal(died) ||
			!got[0].At.Equal(w.clock.Now()) || got[0].By != notifier.ByProvider || !strings.HasPrefix(got[0].Evidence, "410 ") {
			w.Fatalf("got %+v, %v; want the one of the outcome", got, err)
		}
		w.wantHeld(w.to("next", "a"), got[0].ID)
		// The outcome said again is no new word on the address.
		w.unsuppress(got[0].ID)
		if v := w.complete(me, c).Verdict; v != notifier.VerdictAlready {
			w.Errorf("again: got %v, want already", v)
		}
		w.wantSuppressions(notifier.SuppressionFilter{})
	}},
	{"of an outcome that is fenced off none is placed", func(w *world) {
		l := w.leasedTo("k", "a")
		if v := w.complete(you, w.dead(l.Hold(), "a", time.Time{})).Verdict; v != notifier.VerdictFenced {
			w.Errorf("got %v, want fenced", v)
		}
		w.wantSuppressions(notifier.SuppressionFilter{})
	}},
	{"two outcomes of one batch about one address place one, as of the later", func(w *world) {
		a, b, c := w.leasedTo("a", "x"), w.leasedTo("b", "x"), w.leasedTo("c", "y")
		later := w.clock.Now().Add(-time.Minute)
		got, err := w.l.Complete(w.ctx, me, []notifier.Completion{
			w.dead(a.Hold(), "x", later), w.sent(c.Hold()), w.dead(b.Hold(), "x", later.Add(-time.Hour))})
		if err != nil {
			w.Fatal(err)
		}
		for i, s := range got {
			if s.Verdict != notifier.VerdictDone {
				w.Errorf("%d: got %v, want done", i, s.Verdict)
			}
		}
		list, err := w.l.Suppressions(w.ctx, notifier.SuppressionFilter{Tenant: tenant, Limit: 10})
		if err != nil || len(list) != 1 || !list[0].Since.Equal(later) {
			w.Errorf("got %+v, %v; want one as of %v", list, err, later)
		}
	}},
	{"an address that died again is dead as of then, and never as of before", func(w *world) {
		first := w.suppress(notifier.Suppression{Address: notifier.Address{Value: "a"}, Cause: notifier.CauseInvalidAddress, Channel: lane.Channel, Evidence: "first"})
		w.pass(time.Hour)
		in := w.to("anew", "a")
		in.Deliveries[0].Address.RegisteredAt = w.clock.Now()
		in.Lease = notifier.FirstLease{Owner: me, Count: 1}
		l := w.accept(in)[0].Leased[0]
		w.pass(time.Minute)
		w.complete(me, w.dead(l.Hold(), "a", w.clock.Now()))
		again := w.to("again", "a")
		again.Deliveries[0].Address.RegisteredAt = in.Deliveries[0].Address.RegisteredAt
		w.wantHeld(again, first.ID)
		w.suppress(notifier.Suppression{Address: notifier.Address{Value: "a"}, Cause: notifier.CauseInvalidAddress, Channel: lane.Channel, Since: first.Since})
		again.Key = "still"
		w.wantHeld(again, first.ID)
	}},
}
