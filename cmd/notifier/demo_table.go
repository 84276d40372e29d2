package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// tableRow is one line of the table.
type tableRow struct {
	typ   string
	order notifier.Order
	// intents, repeats, possiblyRepeated and possiblyLost are the ledger's.
	intents, repeats, possiblyRepeated, possiblyLost int
	// requests and effects are counted in the providers' log.
	requests, effects int
}

// tallies counts by type.
func (j *judgement) tallies() []*tableRow {
	byType := map[string]*tableRow{}
	for _, n := range j.notifications {
		t := byType[n.Type]
		if t == nil {
			t = &tableRow{typ: n.Type, order: n.Order}
			byType[n.Type] = t
		}
		t.intents++
		t.repeats += n.Repeats
	}
	for _, c := range j.all {
		t := byType[c.typ]
		if c.PossibleEffects > 1 {
			t.possiblyRepeated++
		}
		if c.State == notifier.StateUnknown {
			t.possiblyLost++
		}
		t.requests += len(c.requests)
		t.effects += c.effects()
	}
	return slices.SortedFunc(maps.Values(byType), func(a, b *tableRow) int {
		return strings.Compare(string(a.order)+a.typ, string(b.order)+b.typ)
	})
}

// printTable prints what the ledger says beside what the providers saw.
func (s *story) printTable(rows []*tableRow) {
	const (
		head = "%-14s %-12s %8s %9s %8s %9s %9s %9s"
		line = "%-14s %-12s %8d %9d %8d %9d %9d %9d"
	)
	s.text("")
	s.text(head, "", "", "", "requests", "repeats", "provider", "possibly", "possibly")
	s.text(head, "type", "order", "intents", "received", "caught", "effects", "repeated", "lost")
	for _, t := range rows {
		s.text(line, t.typ, t.order, t.intents, t.requests, t.repeats, t.effects, t.possiblyRepeated, t.possiblyLost)
	}
	s.text(`
requests received, provider effects: counted in the providers' log
intents, repeats caught:             notifications in the ledger, and further copies of a request
possibly repeated, possibly lost:    deliveries whose outcome nobody can know, as the ledger says`)
}

// judge prints the table and the verdict. What does not hold is exit code 3.
func (d *demo) judge(ctx context.Context) error {
	j, err := d.gather(ctx)
	if err != nil {
		return err
	}
	d.out.printTable(j.tallies())
	d.out.text("\nThe promise, held against the providers' log:")
	var first string
	for _, r := range j.rulings() {
		if len(r.broken) == 0 && strings.HasPrefix(r.of, "0 ") {
			continue // not played
		}
		mark := "holds "
		if len(r.broken) > 0 {
			mark = "BROKEN"
			if first == "" {
				first = fmt.Sprintf("%s, but %s", r.rule, r.broken[0])
			}
		}
		d.out.text("  %s  %16s   %s", mark, r.of, r.rule)
		for _, b := range some(r.broken) {
			d.out.text("%29s%s", "", b)
		}
	}
	if first != "" {
		return &notSo{"demo: the providers' log contradicts the promise: " + first}
	}
	if d.out.err != nil {
		return fmt.Errorf("print the story: %w", d.out.err)
	}
	return nil
}
