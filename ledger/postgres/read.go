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

// Notification returns a tenant's notification with all its deliveries and
// attempts, or a *notifier.Error with CodeNotFound.
func (l *Ledger) Notification(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error) {
	return l.read(ctx, `n.nid = $1 AND n.tenant = $2`, [16]byte(id), tenant)
}

// ByKey is Notification for the newest notification of a key, as long as the
// key is remembered.
func (l *Ledger) ByKey(ctx context.Context, tenant, key string) (*notifier.Notification, error) {
	if key != text(key) {
		return nil, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such notification"} // no key is like this
	}
	return l.read(ctx, `n.nid = (SELECT i.nid FROM idem i WHERE i.tenant = $1 AND i.key = $2)`, tenant, key)
}

// read reads a notification in one snapshot, from the primary: a standby may
// not have heard yet of what its own caller was told.
func (l *Ledger) read(ctx context.Context, where string, args ...any) (n *notifier.Notification, err error) {
	const find = `SELECT n.nid, n.tenant, n.key, p.type, n.recipient, p.ord, p.version, n.accepted_at, n.send_at, n.expires_at, n.repeats
		FROM notification n JOIN policy p ON p.id = n.policy WHERE `
	now, err := l.readNow(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := l.reads.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("read a notification: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx))) }()
	n = &notifier.Notification{Counts: make(map[notifier.State]int)}
	var nid [16]byte
	var accepted time.Time
	var sendAt, expiresAt pgtype.Timestamptz
	err = tx.QueryRow(ctx, find+where, args...).Scan(&nid, &n.Tenant, &n.Key, &n.Type, &n.Recipient, &n.Order, &n.PolicyVersion,
		&accepted, &sendAt, &expiresAt, &n.Repeats)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such notification"}
	}
	if err != nil {
		return nil, fmt.Errorf("read a notification: %w", err)
	}
	n.ID, n.AcceptedAt, n.SendAt, n.ExpiresAt = nid, accepted.UTC(), timeOf(sendAt), timeOf(expiresAt)
	t := timeline{tx: tx, now: now, n: n, nid: nid, settled: make(map[attemptKey]notifier.Evidence)}
	if err := t.read(ctx); err != nil {
		return nil, fmt.Errorf("read notification %v: %w", n.ID, err)
	}
	for i := range n.Deliveries {
		n.Counts[n.Deliveries[i].State]++
	}
	n.State = notifier.Summarize(n.Counts)
	return n, nil
}
