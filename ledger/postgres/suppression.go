package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-4b260dfd/notifier"
)

const suppressionColumns = `s.id, s.tenant, s.subject, s.address, s.recipient, s.channel, s.type, s.cause, s.evidence, s.placed_by, s.at, s.since,
	s.ended_at, s.ended_by, s.ended_why`

// sameSuppression is what an insert does that meets one in force: an address
// that died again, having been registered anew in between, is dead as of then.
const sameSuppression = ` ON CONFLICT (subject, channel, type, cause) WHERE ended_at IS NULL
	DO UPDATE SET since = excluded.since, evidence = excluded.evidence, placed_by = excluded.placed_by, at = excluded.at
		WHERE s.cause = 'invalid_address' AND excluded.since > s.since`

// suppressTries bounds how often a suppression is placed that somebody else
// ends each time between two statements.
const suppressTries = 3

var errEnded = errors.New("others end it as fast as it is placed")

// Suppress places a suppression. The same one placed again while it is in force
// gives the first.
func (l *Ledger) Suppress(ctx context.Context, s notifier.Suppression) (notifier.Suppression, error) {
	const (
		insert = `WITH t AS MATERIALIZED (SELECT ` + sqlNow + ` AS now)
			INSERT INTO suppression AS s (id, tenant, subject, address, recipient, channel, type, cause, evidence, placed_by, at, since)
			SELECT $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, t.now, coalesce($12, t.now) FROM t` + sameSuppression + ` RETURNING ` + suppressionColumns
		same = `SELECT ` + suppressionColumns + ` FROM suppression s
			WHERE s.subject = $1 AND s.channel = $2 AND s.type = $3 AND s.cause = $4 AND s.ended_at IS NULL`
	)
	for range suppressTries {
		got, err := readSuppressions(ctx, l.hot, insert, l.now(), l.suppressionID(), s.Tenant, s.Subject(), text(s.Address.Value), text(s.Recipient),
			s.Channel, s.Type, s.Cause, text(s.Evidence), s.By, orNull(s.Since))
		if err == nil && len(got) == 0 {
			got, err = readSuppressions(ctx, l.hot, same, s.Subject(), s.Channel, s.Type, s.Cause)
		}
		if err != nil {
			return notifier.Suppression{}, fmt.Errorf("suppress: %w", err)
		}
		if len(got) > 0 {
			l.commits.Add(1)
			return got[0].Suppression, nil
		}
	}
	return notifier.Suppression{}, fmt.Errorf("suppress: %w", errEnded)
}

// suppressionID makes an id that is after those of a moment ago, as far as the
// clocks of the nodes agree: the order of the list, and nothing else, is by it.
func (l *Ledger) suppressionID() string {
	now := time.Now()
	if set := l.now(); set != nil {
		now = *set
	}
	return notifier.SuppressionID(l.minter.now(now))
}

// subjected is a suppression with its subject.
type subjected struct {
	notifier.Suppression
	subject string
}

func readSuppressions(ctx context.Context, db querier, text string, args ...any) (out []subjected, err error) {
	rows, err := db.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	var s subjected
	var at, since time.Time
	var ended pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&s.ID, &s.Tenant, &s.subject, &s.Address.Value, &s.Recipient, &s.Channel, &s.Type, &s.Cause, &s.Evidence, &s.By,
		&at, &since, &ended, &s.EndedBy, &s.EndedWhy}, func() error {
		s.At, s.Since, s.EndedAt = at.UTC(), since.UTC(), timeOf(ended)
		out = append(out, s)
		return nil
	})
	return out, err
}

// suppressions are those in force, by subject.
type suppressions map[string][]notifier.Suppression

// of is the id of one that holds for a delivery; empty: there is none.
func (s suppressions) of(d *notifier.Delivery) string {
	if len(s) == 0 {
		return ""
	}
	for _, subject := range d.Subjects() {
		for i := range s[subject] {
			if one := &s[subject][i]; one.Matches(d) {
				return one.ID
			}
		}
	}
	return ""
}

const findSuppressionsSQL = `SELECT ` + suppressionColumns + ` FROM suppression s WHERE s.subject = ANY ($1) AND s.ended_at IS NULL`

// findSuppressions finds all that can hold for some of the deliveries, in one
// statement for however many.
func (l *Ledger) findSuppressions(ctx context.Context, of []*notifier.Delivery) (suppressions, error) {
	if len(of) == 0 {
		return nil, nil
	}
	subjects := make([]string, 0, 2*len(of))
	for _, d := range of {
		both := d.Subjects()
		subjects = append(subjects, both[:]...)
	}
	got, err := readSuppressions(ctx, l.hot, findSuppressionsSQL, subjects)
	if err != nil {
		return nil, fmt.Errorf("look for suppressions: %w", err)
	}
	found := make(suppressions, len(got))
	for _, s := range got {
		found[s.subject] = append(found[s.subject], s.Suppression)
	}
	return found, nil
}

// markSuppressed marks what a suppression holds for.
func (l *Ledger) markSuppressed(ctx context.Context, leased []notifier.Leased) error {
	of := make([]*notifier.Delivery, len(leased))
	for i := range leased {
		of[i] = &leased[i].Delivery
	}
	found, err := l.findSuppressions(ctx, of)
	if err != nil {
		return err
	}
	for i := range leased {
		leased[i].Suppressed = found.of(of[i])
	}
	return nil
}

// completePlaces places suppressions with the outcomes of those deliveries that
// were the caller's to end. Two of a batch may be about one address.
const completePlaces = `,
	x AS MATERIALIZED (SELECT * FROM unnest($16::uuid[], $17::int[], $18::bigint[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[],
			$24::text[], $25::text[], $26::text[], $27::text[], $28::text[], $29::timestamptz[])
		AS x(nid, ch, fence, id, tenant, subject, address, recipient, channel, type, cause, evidence, placed_by, since)),
	p AS (INSERT INTO suppression AS s (id, tenant, subject, address, recipient, channel, type, cause, evidence, placed_by, at, since)
		SELECT DISTINCT ON (x.subject, x.channel, x.type, x.cause)
			x.id, x.tenant, x.subject, x.address, x.recipient, x.channel, x.type, x.cause, x.evidence, x.placed_by, t.now, coalesce(x.since, t.now)
		FROM x JOIN d USING (nid, ch, fence) CROSS JOIN t
		ORDER BY x.subject, x.channel, x.type, x.cause, x.since DESC` + sameSuppression + `)`

// placings are suppressions that are placed with outcomes, column by column.
type placings struct {
	nid                                                                              [][16]byte
	ch                                                                               []int32
	fence                                                                            []int64
	id, tenant, subject, address, recipient, channel, typ, cause, evidence, placedBy []string
	since                                                                            []*time.Time
}

func (p *placings) add(h notifier.Hold, id string, s *notifier.Suppression) {
	p.nid, p.ch, p.fence = append(p.nid, h.ID.Notification), append(p.ch, int32(h.ID.Ordinal)), append(p.fence, h.Fence)
	p.id, p.tenant, p.subject = append(p.id, id), append(p.tenant, s.Tenant), append(p.subject, s.Subject())
	p.address, p.recipient = append(p.address, text(s.Address.Value)), append(p.recipient, text(s.Recipient))
	p.channel, p.typ, p.cause = append(p.channel, string(s.Channel)), append(p.typ, s.Type), append(p.cause, string(s.Cause))
	p.evidence, p.placedBy, p.since = append(p.evidence, text(s.Evidence)), append(p.placedBy, s.By), append(p.since, orNull(s.Since))
}

func (p *placings) args() []any {
	return []any{p.nid, p.ch, p.fence, p.id, p.tenant, p.subject, p.address, p.recipient, p.channel, p.typ, p.cause, p.evidence, p.placedBy, p.since}
}

// Unsuppress ends a suppression and keeps who did and why.
func (l *Ledger) Unsuppress(ctx context.Context, tenant, id, by, why string) (notifier.Suppression, bool, error) {
	const (
		end = `UPDATE suppression s SET ended_at = ` + sqlNow + `, ended_by = $4, ended_why = $5
			WHERE s.id = $2 AND s.tenant = $3 AND s.ended_at IS NULL RETURNING ` + suppressionColumns
		find = `SELECT ` + suppressionColumns + ` FROM suppression s WHERE s.id = $1 AND s.tenant = $2`
	)
	got, err := readSuppressions(ctx, l.hot, end, l.now(), text(id), tenant, text(by), text(why))
	ended := len(got) > 0
	if err == nil && !ended {
		got, err = readSuppressions(ctx, l.hot, find, text(id), tenant)
	}
	switch {
	case err != nil:
		return notifier.Suppression{}, false, fmt.Errorf("end the suppression: %w", err)
	case len(got) == 0:
		return notifier.Suppression{}, false, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such suppression"}
	}
	l.commits.Add(1)
	return got[0].Suppression, ended, nil
}

// Suppressions lists those in force, the newest first.
func (l *Ledger) Suppressions(ctx context.Context, f notifier.SuppressionFilter) ([]notifier.Suppression, error) {
	const (
		begin = `SELECT ` + suppressionColumns + ` FROM suppression s WHERE s.ended_at IS NULL AND s.tenant = $1
			AND $2 IN ('', s.channel) AND $3 IN ('', s.type) AND $4 IN ('', s.cause) AND ($5 = '' OR s.id < $5)`
		about = ` AND s.subject = $7`
		rest  = ` ORDER BY s.id DESC LIMIT $6`
	)
	query, args := begin, []any{f.Tenant, f.Channel, text(f.Type), f.Cause, text(f.Before), f.Limit}
	if subject := f.Subject(); subject != "" {
		query, args = query+about, append(args, subject)
	}
	got, err := readSuppressions(ctx, l.reads, query+rest, args...)
	if err != nil {
		return nil, fmt.Errorf("list the suppressions: %w", err)
	}
	out := make([]notifier.Suppression, len(got))
	for i := range got {
		out[i] = got[i].Suppression
	}
	return out, nil
}
