package sqlite

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

//go:embed schema/*.sql
var schema embed.FS

// migrate runs the migrations that the file has not seen, in one transaction,
// and returns the ledger's id. A crash in it leaves the file as it was.
func migrate(ctx context.Context, c *conn, now time.Time) (id string, err error) {
	names, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return "", err
	}
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return "", fmt.Errorf("begin the migration: %w", err)
	}
	defer func() {
		if err != nil {
			_, undo := c.exec("ROLLBACK")
			err = errors.Join(err, undo)
		}
	}()
	v, err := c.first("PRAGMA user_version")
	if err != nil {
		return "", fmt.Errorf("read the schema's version: %w", err)
	}
	seen := int(v.int(0))
	if seen > len(names) {
		return "", fmt.Errorf("its schema is version %d and this notifier knows %d: run the newer one", seen, len(names))
	}
	for _, name := range names[seen:] {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		text, err := schema.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := c.script(string(text)); err != nil {
			return "", fmt.Errorf("migrate with %s: %w", name, err)
		}
	}
	if _, err := c.exec("PRAGMA user_version = " + strconv.Itoa(len(names))); err != nil {
		return "", fmt.Errorf("write the schema's version: %w", err)
	}
	if id, err = ledgerID(c, now); err != nil {
		return "", fmt.Errorf("read the ledger's id: %w", err)
	}
	_, err = c.exec("COMMIT")
	return id, err
}

func ledgerID(c *conn, now time.Time) (string, error) {
	const insert = `INSERT INTO meta (one, ledger_id, created_at) VALUES (1, ?, ?) ON CONFLICT DO NOTHING`
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	fresh := fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
	if _, err := c.exec(insert, fresh, micros(now)); err != nil {
		return "", err
	}
	r, err := c.first(`SELECT ledger_id FROM meta WHERE one = 1`)
	if err != nil {
		return "", err
	}
	return r.str(0), nil
}
