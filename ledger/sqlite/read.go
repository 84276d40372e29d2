package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-4b260dfd/notifier"
)

// Notification returns a tenant's notification with all its deliveries and
// attempts, or a *notifier.Error with CodeNotFound.
func (l *Ledger) Notification(ctx context.Context, tenant string, id notifier.ID) (*notifier.Notification, error) {
	const where = `n.n = coalesce((SELECT d - ch FROM queue WHERE nid = ? LIMIT 1), (SELECT d - ch FROM outcome WHERE nid = ? LIMIT 1))
		AND n.tenant = ?`
	return l.read(ctx, where, id[:], id[:], tenant)
}

// ByKey is Notification for the newest notification of a key, as long as the
// key is remembered.
func (l *Ledger) ByKey(ctx context.Context, tenant, key string) (*notifier.Notification, error) {
	return l.read(ctx, "n.n = (SELECT n FROM idem WHERE tenant = ? AND key = ?)", tenant, key)
}

// read reads a notification in one snapshot.
func (l *Ledger) read(ctx context.Context, where string, args ...any) (n *notifier.Notification, err error) {
	const find = `SELECT n.n, n.nid, n.deliveries, n.tenant, n.key, n.type, n.recipient, n.ord, n.policy_version,
		n.accepted_at, n.send_at, n.expires_at, n.repeats FROM notification n WHERE `
	tx, err := l.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("read a notification: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	var (
		first, deliveries            int64
		nid                          []byte
		acceptedAt, sendAt, expireAt int64
	)
	n = &notifier.Notification{Counts: make(map[notifier.State]int)}
	err = tx.QueryRowContext(ctx, find+where, args...).Scan(&first, &nid, &deliveries, &n.Tenant, &n.Key, &n.Type, &n.Recipient, &n.Order,
		&n.PolicyVersion, &acceptedAt, &sendAt, &expireAt, &n.Repeats)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &notifier.Error{Code: notifier.CodeNotFound, Message: "there is no such notification"}
	}
	if err != nil {
		return nil, fmt.Errorf("read a notification: %w", err)
	}
	n.ID, n.AcceptedAt, n.SendAt, n.ExpiresAt = idOf(nid), fromMicros(acceptedAt), fromMicros(sendAt), fromMicros(expireAt)
	t := timeline{tx: tx, now: micros(l.now()), n: n, nid: nid, settled: make(map[attemptKey]notifier.Evidence)}
	if err := t.read(ctx, first, deliveries); err != nil {
		return nil, fmt.Errorf("read notification %v: %w", n.ID, err)
	}
	for i := range n.Deliveries {
		n.Counts[n.Deliveries[i].State]++
	}
	n.State = notifier.Summarize(n.Counts)
	return n, nil
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query runs a query and calls each with the scanner of every row.
func query(ctx context.Context, q querier, text string, each func(scan func(...any) error) error, args ...any) error {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
