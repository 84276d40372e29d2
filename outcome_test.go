package notifier_test

import (
	"testing"

	"github.com/seed-4b260dfd/notifier"
)

// A forgotten return must not read as success, nor as leave to send again.
func TestOutcome_ZeroIsUnknown(t *testing.T) {
	t.Parallel()
	var zero notifier.Outcome
	if zero != notifier.OutcomeUnknown || zero.String() != "unknown" {
		t.Errorf("the zero value is %v, want unknown", zero)
	}
}

func TestOutcome_Words(t *testing.T) {
	t.Parallel()
	for o, word := range map[notifier.Outcome]string{
		notifier.OutcomeUnknown:        "unknown",
		notifier.OutcomeSent:           "sent",
		notifier.OutcomeRejected:       "rejected",
		notifier.OutcomeInvalidAddress: "invalid_address",
		notifier.OutcomeNotSent:        "not_sent",
	} {
		b, err := o.MarshalText()
		if err != nil || string(b) != word || o.String() != word {
			t.Errorf("outcome %d: got %q, %q, %v, want %q", o, b, o, err, word)
		}
		back := notifier.Outcome(99)
		if err := back.UnmarshalText(b); err != nil || back != o {
			t.Errorf("%q: read as %v, %v", b, back, err)
		}
	}
	for _, bad := range []string{"", "Sent", "ok", "outcome(9)"} {
		o := notifier.OutcomeRejected
		if err := o.UnmarshalText([]byte(bad)); err == nil || o != notifier.OutcomeRejected {
			t.Errorf("%q: read as %v, %v, want an error and no change", bad, o, err)
		}
	}
	if got := notifier.Outcome(9).String(); got != "outcome(9)" {
		t.Errorf("got %q, want outcome(9)", got)
	}
}

var finished = []notifier.State{
	notifier.StateDelivered, notifier.StateSent, notifier.StateUnknown, notifier.StateDead,
	notifier.StateRejected, notifier.StateExpired, notifier.StateSuppressed, notifier.StateCancelled,
}

func TestState_Finished(t *testing.T) {
	t.Parallel()
	for _, s := range finished {
		if !s.Finished() {
			t.Errorf("%s is not finished", s)
		}
	}
	for _, s := range []notifier.State{notifier.StatePending, notifier.StateSending} {
		if s.Finished() {
			t.Errorf("%s is finished", s)
		}
	}
}

// A notification shows the best that any delivery reached, once all have ended.
func TestSummarize(t *testing.T) {
	t.Parallel()
	for i, best := range finished {
		counts := map[notifier.State]int{}
		for _, s := range finished[i:] {
			counts[s] = 2
		}
		if got := notifier.Summarize(counts); got != best {
			t.Errorf("%v: got %s, want %s", counts, got, best)
		}
		for _, s := range []notifier.State{notifier.StatePending, notifier.StateSending} {
			counts[s] = 1
			if got := notifier.Summarize(counts); got != notifier.StatePending {
				t.Errorf("%v: got %s, want pending", counts, got)
			}
			counts[s] = 0
		}
		if got := notifier.Summarize(counts); got != best {
			t.Errorf("%v: got %s, want %s", counts, got, best)
		}
	}
	if got := notifier.Summarize(nil); got != notifier.StatePending {
		t.Errorf("without deliveries: got %s, want pending", got)
	}
}
