package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

const (
	// lookAfter is how long after its end a delivery's provider is asked, since
	// what it took in a moment ago may not show yet; lookAgain, how long after it
	// is asked a second time, and no more.
	lookAfter = 10 * time.Second
	lookAgain = time.Minute
	// lookBack is how long a provider that does not answer is asked.
	lookBack = 24 * time.Hour
	// lookEvery is how often the ledger is asked what to ask about.
	lookEvery = 10 * time.Second
	// providerPatience bounds one question to a provider.
	providerPatience = 10 * time.Second
	// looksAtOnce and lookBatch bound a round of questions.
	looksAtOnce = 4
	lookBatch   = 200
)

// lookTimes are when providers are asked.
type lookTimes struct{ after, again, every time.Duration }

// looker is the account's channel where its provider can be asked.
func (a *account) looker() channels.Looker {
	if a == nil {
		return nil
	}
	l, _ := a.channel.(channels.Looker)
	return l
}

// found asks the provider, before a send-first attempt that might be a repeat,
// whether it has the message of an earlier one, and if so ends the delivery. No
// answer, and an answer that it has none, leave the attempt to be made.
func (w *work) found(ctx context.Context) bool {
	l := w.lease
	looker := w.account.looker()
	if l.Terms.Unknown != notifier.UnknownLookup || l.Maybe == 0 || looker == nil {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	f, err := looker.Lookup(asking, &l.Delivery, asked(&l.Delivery))
	if err != nil || !f.Sent {
		w.e.log.Info("looked up before a repeat", "delivery", l.ID.String(), "found", false, "err", err)
		return false
	}
	w.settle(ctx, notifier.OutcomeSent)
	// The evidence first: it says why the delivery counts as sent.
	if err := w.e.cfg.Ledger.Witness(ctx, w.e.owner, []notifier.Evidence{evidenceOf(l.Hold(), f)}); err != nil {
		w.e.log.Error("keep what the provider has", "delivery", l.ID.String(), "err", err)
	}
	w.finish(notifier.Completion{State: notifier.StateSent})
	return true
}

// asked is from when on a provider looks for a delivery's message.
func asked(d *notifier.Delivery) time.Time { return later(d.AcceptedAt, d.SendAt) }

func evidenceOf(h notifier.Hold, f channels.Found) notifier.Evidence {
	e := notifier.Evidence{Hold: h, Kind: notifier.EvidenceLookupNone}
	e.Attempt.ProviderStatus = f.ProviderStatus
	if f.Sent {
		e.Kind, e.Attempt.Outcome, e.Attempt.ProviderID = notifier.EvidenceLookup, notifier.OutcomeSent, f.ProviderID
	}
	return e
}

// lookLoop asks providers about what ended unknown. Nothing of it has to
// survive a crash: the ledger knows what has not been asked.
func (e *Engine) lookLoop(ctx context.Context) {
	able := false
	for _, a := range e.accounts {
		able = able || a.looker() != nil
	}
	if !able {
		return
	}
	once := map[notifier.DeliveryID]bool{}
	tick := time.NewTicker(e.cfg.looks.every)
	defer tick.Stop()
	for {
		if err := e.lookUp(ctx, once); err != nil && ctx.Err() == nil {
			e.log.Error("look up what ended unknown", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// lookUp is a round of questions. once has what was asked about once and was
// not found; what is no longer to be asked about leaves it.
func (e *Engine) lookUp(ctx context.Context, once map[notifier.DeliveryID]bool) error {
	all, err := e.cfg.Ledger.Unsettled(ctx, time.Now().Add(-lookBack), lookBatch)
	if err != nil {
		return err
	}
	open := map[notifier.DeliveryID]bool{}
	var mu sync.Mutex
	var questions sync.WaitGroup
	places := make(chan struct{}, looksAtOnce)
	for i := range all {
		u := &all[i]
		age, second := time.Since(u.FinishedAt), once[u.ID]
		open[u.ID] = true
		looker := e.accounts[accountKey{u.Lane.Channel, u.Lane.Account}].looker()
		if looker == nil || age < e.cfg.looks.after || second && age < e.cfg.looks.again {
			continue
		}
		places <- struct{}{}
		questions.Go(func() {
			defer func() { <-places }()
			if missing := e.lookUpOne(ctx, looker, u, second); missing {
				mu.Lock()
				defer mu.Unlock()
				once[u.ID] = true
			}
		})
	}
	questions.Wait()
	for id := range once {
		if !open[id] {
			delete(once, id)
		}
	}
	return nil
}

// lookUpOne asks about one delivery and keeps what it learns. It reports
// whether the provider did not know of the message and is to be asked again.
func (e *Engine) lookUpOne(ctx context.Context, looker channels.Looker, u *notifier.Unsettled, second bool) (missing bool) {
	asking, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	f, err := looker.Lookup(asking, &u.Delivery, asked(&u.Delivery))
	switch {
	case errors.Is(err, channels.ErrNoLookup):
		// Kept like an answer, so that it is not found again and again.
		f.ProviderStatus = err.Error()
	case err != nil:
		e.log.Warn("ask the provider about an unknown delivery", "delivery", u.ID.String(), "err", err)
		return false
	case !f.Sent && !second:
		return true
	}
	e.log.Info("looked up an unknown delivery", "delivery", u.ID.String(), "found", f.Sent)
	wctx, stop := write()
	defer stop()
	h := notifier.Hold{ID: u.ID, Fence: u.Fence}
	if err := e.cfg.Ledger.Witness(wctx, e.owner, []notifier.Evidence{evidenceOf(h, f)}); err != nil {
		e.log.Error("keep what the provider has", "delivery", u.ID.String(), "err", err)
		return false
	}
	if f.Sent {
		e.finished(u.Type, u.Lane.Channel, u.ID.Notification, notifier.StateSent, notifier.ReasonNone)
	}
	return false
}
