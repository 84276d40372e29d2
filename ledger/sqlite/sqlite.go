// Package sqlite keeps the ledger in one SQLite file, for one process.
//
// What it promises: a method that returned without an error has its bytes on
// the disk (WAL, synchronous=FULL); a delivery has at most one outcome, ever;
// a fence is never given out twice; and no second process opens the file.
//
// One goroutine writes. Methods that are called at the same time share one
// transaction and one sync, which is what makes a file fast enough: the cost
// of a commit is paid by all that wait for it. Readers have connections of
// their own and never wait for the writer.
//
// What it does not do: serve several processes, or survive the disk.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

// ErrClosed says that the ledger was closed before the operation began.
var ErrClosed = errors.New("ledger is closed")

const (
	// writerCacheKiB bounds the writer's page cache: what is hot is small,
	// and the rest of a million deliveries must not live in memory.
	writerCacheKiB = 8 << 10
	readerCacheKiB = 1 << 10
	readers        = 2
	// busyTimeout is how long a statement waits for somebody else's lock on
	// the file: a backup, or a person with a shell.
	busyTimeout = 5 * time.Second
	// checkpointPages is after how many pages of log the writer copies them
	// back; journalBytes is what the log file shrinks to afterwards.
	checkpointPages = 4000
	journalBytes    = 64 << 20
)

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	id      string
	now     func() time.Time
	locks   locks
	reads   *sql.DB
	ops     chan *op
	closing chan struct{}
	ended   chan struct{}
	close   sync.Once
	closed  error
	tally   *tally
	commits atomic.Int64
}

type settings struct {
	now func() time.Time
	vfs string
}

// Option changes how Open opens a ledger.
type Option func(*settings)

// WithClock makes the ledger tell the time by now instead of time.Now.
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// WithVFS opens the file through a registered SQLite file layer, such as one
// that records the syncs.
func WithVFS(name string) Option { return func(s *settings) { s.vfs = name } }

// Open opens the ledger at path, creates it if there is none, and brings its
// schema up to date. It returns ErrLocked, with a message that says what to
// do, while another process has it open.
func Open(ctx context.Context, path string, opts ...Option) (*Ledger, error) {
	s := settings{now: time.Now}
	for _, o := range opts {
		o(&s)
	}
	path, err := realPath(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	// Data and size are what a commit needs on the disk, the file's times are
	// not: leaving those out spares the file system's own journal.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	locked, err := lockLedger(path)
	if err != nil {
		return nil, err
	}
	l := &Ledger{now: s.now, locks: locked, ops: make(chan *op), closing: make(chan struct{}), ended: make(chan struct{}), tally: newTally()}
	w, err := l.open(ctx, path, s.vfs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %q: %w", path, err), locked.unlock())
	}
	go l.loop(w)
	return l, nil
}

// realPath is the one name of the file at path, so that two names of one file
// do not take two locks. The file need not be there yet.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if real, err = filepath.EvalSymlinks(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			return path, nil // opening it says what is missing
		}
		real = filepath.Join(real, filepath.Base(path))
	}
	return real, err
}

// open makes the schema and the connections.
func (l *Ledger) open(ctx context.Context, path, vfs string) (*writer, error) {
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	c, err := connect(path, vfs)
	if err != nil {
		return nil, err
	}
	for _, setting := range []string{
		"busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")",
		"journal_mode(WAL)",
		"synchronous(" + syncMode + ")",
		"cache_size(-" + strconv.Itoa(writerCacheKiB) + ")",
		"wal_autocheckpoint(" + strconv.Itoa(checkpointPages) + ")",
		"journal_size_limit(" + strconv.Itoa(journalBytes) + ")",
		"temp_store(MEMORY)",
	} {
		if err := c.script("PRAGMA " + setting); err != nil {
			return nil, errors.Join(fmt.Errorf("set %s: %w", setting, err), c.close())
		}
	}
	if l.id, err = migrate(ctx, c, l.now()); err != nil {
		return nil, errors.Join(err, c.close())
	}
	w, err := newWriter(c, l.now)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	l.reads, err = sql.Open("sqlite", dsn(path, vfs, url.Values{"mode": {"ro"}, "_pragma": {
		"busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")",
		"cache_size(-" + strconv.Itoa(readerCacheKiB) + ")",
		"query_only(1)",
	}}))
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	l.reads.SetMaxOpenConns(readers)
	l.reads.SetMaxIdleConns(readers)
	if err := l.tally.start(l.reads); err != nil {
		return nil, errors.Join(err, l.reads.Close(), c.close())
	}
	return w, nil
}

func dsn(path, vfs string, q url.Values) string {
	if vfs != "" {
		q.Set("vfs", vfs)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}).String()
}

// Close lets the commit under way end, closes the file and gives the lock
// back. Operations that had not begun return ErrClosed.
func (l *Ledger) Close() error {
	l.close.Do(func() {
		close(l.closing)
		l.tally.end() // it reads through a connection that is closed next
		<-l.ended
	})
	return l.closed
}

// ID is the ledger's own id, from its first migration on: a restored backup
// keeps it, a new ledger has another.
func (l *Ledger) ID() string { return l.id }

// Commits is how many transactions were committed since Open.
func (l *Ledger) Commits() int64 { return l.commits.Load() }
