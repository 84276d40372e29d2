package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/delivery"
	"github.com/seed-4b260dfd/notifier/policy"
)

// check prints every problem to stdout. That they were found is its result;
// that there are any is exit code 3.
func (c command) check(ctx context.Context, p *process, args []string) error {
	f := c.flags()
	var from projectFlags
	from.define(f, true)
	strict := f.Bool("strict", false, "let warnings fail as well")
	live := f.Bool("live", false, "try the credentials of each account at its provider, without a message")
	verbose := f.Bool("v", false, "print each type's retry schedule")
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	pr, err := from.load(p.getenv)
	if err != nil {
		return err
	}
	for _, problem := range pr.problems {
		fmt.Fprintln(p.stdout, problem)
	}
	if *verbose {
		pr.printSchedules(p.stdout)
	}
	errors := pr.errors()
	warnings := len(pr.problems) - errors
	types := len(pr.policies.Types())
	switch {
	case errors > 0:
		return &notSo{fmt.Sprintf("check: %s, %s; correct them and check again", count(errors, "problem"), count(warnings, "warning"))}
	case types == 0:
		return &notSo{pr.noPolicy()}
	case *strict && warnings > 0:
		return &notSo{fmt.Sprintf("check: %s, and -strict allows none; correct them and check again", count(warnings, "warning"))}
	}
	if *live {
		if failed := pr.Channels.checkLive(ctx, p.stdout); failed > 0 {
			return &notSo{fmt.Sprintf("check: %s did not pass the provider; the lines above say why", count(failed, "account"))}
		}
	}
	fmt.Fprintf(p.stdout, "ok: %s, %s, %s, %s\n", count(types, "policy"), count(len(pr.templates.All()), "template"),
		count(pr.accountCount(), "account"), count(warnings, "warning"))
	return nil
}

func (p *project) accountCount() int {
	n := 0
	for _, w := range p.Channels.wired() {
		n += len(w.accounts)
	}
	return n
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *project) printSchedules(w io.Writer) {
	for _, typ := range p.policies.Types() {
		pol := p.policies.Policy(typ)
		for i := range pol.Channels {
			fmt.Fprintln(w, schedule(pol, pol.Channels[i].Channel))
		}
	}
}

// schedule says in one line when a delivery is tried again, as long as no
// attempt is unknown and no provider asks for another time.
func schedule(p *policy.Policy, ch notifier.Channel) string {
	r := p.RetryFor(ch)
	var waits []string
	total := time.Duration(0)
	for n := 0; n < r.MaxAttempts-1; n++ {
		wait := delivery.Backoff(r, n, false, 1)
		if total += wait; total >= p.ExpiresAfter || wait <= 0 {
			break
		}
		waits = append(waits, wait.String())
	}
	return fmt.Sprintf("%s %s (%s): again after at most %s (half of each wait is random; after an unknown it is longer); %s, %d of them may be unknown; expires after %s",
		p.Type, ch, p.Order, listed(waits), count(r.MaxAttempts, "attempt"), r.MaxUnknown, p.ExpiresAfter)
}
