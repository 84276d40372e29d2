package sqlite

import (
	"context"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

const suppressionColumns = `s.id, s.tenant, s.address, s.recipient, s.channel, s.type, s.cause, s.evidence, s.placed_by, s.at, s.since,
	s.ended_at, s.ended_by, s.ended_why`

// Suppress places a suppression. The same one placed again while it is in force
// gives the first.
func (l *Ledger) Suppress(ctx context.Context, s notifier.Suppression) (notifier.Suppression, error) {
	err := l.write(ctx, func(w *writer) (err error) {
		s, err = w.suppress(s)
		return err
	})
	if err != nil {
		return notifier.Suppression{}, fmt.Errorf("suppress: %w", err)
	}
	return s, nil
}

func (w *writer) suppress(s notifier.Suppression) (notifier.Suppression, error) {
	const (
		same = `SELECT ` + suppressionColumns + ` FROM suppression s
			WHERE s.subject = ? AND s.channel = ? AND s.type = ? AND s.cause = ? AND s.ended_at = 0`
		insert = `INSERT INTO suppression (id, tenant, subject, address, recipient, channel, type, cause, evidence, placed_by, at, since)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
		move = `UPDATE suppression SET since = ?, evidence = ?, placed_by = ?, at = ? WHERE id = ? AND ended_at = 0`
	)
	subject, channel, cause := s.Subject(), string(s.Channel), string(s.Cause)
	if s.At = w.now; s.Since.IsZero() {
		s.Since = w.now
	}
	s.Since = fromMicros(micros(s.Since))
	s.Address = notifier.Address{Value: s.Address.Value}
	r, err := w.first(same, subject, channel, s.Type, cause)
	if err != nil {
		return s, fmt.Errorf("look for the same: %w", err)
	}
	if r == nil {
		s.ID = notifier.SuppressionID(w.minter.mint(w.now))
		_, err = w.exec(insert, s.ID, s.Tenant, subject, s.Address.Value, s.Recipient, channel, s.Type, cause, s.Evidence, s.By, micros(s.At), micros(s.Since))
		return s, err
	}
	first := suppressionOf(r)
	if s.Cause != notifier.CauseInvalidAddress || !s.Since.After(first.Since) {
		return first, nil
	}
	first.Since, first.Evidence, first.By, first.At = s.Since, s.Evidence, s.By, s.At
	_, err = w.exec(move, micros(s.Since), s.Evidence, s.By, micros(s.At), first.ID)
	return first, err
}

func suppressionOf(r row) notifier.Suppression {
	return notifier.Suppression{
		ID: r.str(0), Tenant: r.str(1), Address: notifier.Address{Value: r.str(2)}, Recipient: r.str(3), Channel: notifier.Channel(r.str(4)),
		Type: r.str(5), Cause: notifier.SuppressionCause(r.str(6)), Evidence: r.str(7), By: r.str(8), At: r.time(9), Since: r.time(10),
		EndedAt: r.time(11), EndedBy: r.str(12), EndedWhy: r.str(13),
	}
}

// suppressed is the id of a suppression that holds for a delivery; empty: there
// is none. Two look-ups in an index, for each delivery that is leased.
func (w *writer) suppressed(d *notifier.Delivery) (id string, err error) {
	const find = `SELECT ` + suppressionColumns + ` FROM suppression s WHERE s.subject = ? AND s.ended_at = 0`
	for _, subject := range d.Subjects() {
		err := w.rows(find, func(r row) error {
			if s := suppressionOf(r); id == "" && s.Matches(d) {
				id = s.ID
			}
			return nil
		}, subject)
		if err != nil {
			return "", fmt.Errorf("look for suppressions: %w", err)
		}
	}
	return id, nil
}

// Unsuppress ends a suppression and keeps who did and why.
func (l *Ledger) Unsuppress(ctx context.Context, tenant, id, by, why string) (s notifier.Suppression, ended bool, err error) {
	const (
		end  = `UPDATE suppression SET ended_at = ?, ended_by = ?, ended_why = ? WHERE id = ? AND tenant = ? AND ended_at = 0`
		find = `SELECT ` + suppressionColumns + ` FROM suppression s WHERE s.id = ? AND s.tenant = ?`
	)
	err = l.write(ctx, func(w *writer) error {
		n, err := w.exec(end, micros(w.now), by, why, id, tenant)
		if err != nil {
			return err
		}
		ended = n > 0
		r, err := w.first(find, id, tenant)
		switch {
		case err != nil:
			return err
		case r == nil:
			return &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such suppression"}
		}
		s = suppressionOf(r)
		return nil
	})
	if err != nil {
		return notifier.Suppression{}, false, fmt.Errorf("end the suppression: %w", err)
	}
	return s, ended, nil
}

// Suppressions lists those in force, the newest first.
func (l *Ledger) Suppressions(ctx context.Context, f notifier.SuppressionFilter) (out []notifier.Suppression, err error) {
	const (
		begin = `SELECT ` + suppressionColumns + ` FROM suppression s WHERE s.ended_at = 0 AND s.tenant = ?`
		about = ` AND s.subject = ?`
		rest  = ` AND ? IN ('', s.channel) AND ? IN ('', s.type) AND ? IN ('', s.cause) AND (? = '' OR s.id < ?) ORDER BY s.id DESC LIMIT ?`
	)
	text, args := begin, []any{f.Tenant}
	if subject := f.Subject(); subject != "" {
		text, args = text+about, append(args, subject)
	}
	args = append(args, string(f.Channel), f.Type, string(f.Cause), f.Before, f.Before, f.Limit)
	err = query(ctx, l.reads, text+rest, func(scan func(...any) error) error {
		var s notifier.Suppression
		var at, since, ended int64
		err := scan(&s.ID, &s.Tenant, &s.Address.Value, &s.Recipient, &s.Channel, &s.Type, &s.Cause, &s.Evidence, &s.By, &at, &since, &ended, &s.EndedBy, &s.EndedWhy)
		s.At, s.Since, s.EndedAt = fromMicros(at), fromMicros(since), fromMicros(ended)
		out = append(out, s)
		return err
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("list the suppressions: %w", err)
	}
	return out, nil
}
