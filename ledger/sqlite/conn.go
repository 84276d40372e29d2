package sqlite

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// conn is one connection with its statements prepared once. It belongs to one
// goroutine at a time and calls SQLite itself, not through the driver: the
// writer runs half a dozen short statements per delivery, and what the driver
// does for each (names of parameters, a buffer for each text, locks against
// other goroutines) would cost a third of them.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	stmts map[string]*stmt
	// texts holds the texts and blobs of the statement that runs. SQLite reads
	// them where they are; a statement binds all of its own before each run.
	texts uintptr
	room  int
	// changed says that a statement has changed a row since it was last reset.
	changed bool
}

// stmt is a prepared statement and how many columns its rows have.
type stmt struct {
	p       uintptr
	columns int
}

// connect opens a file through a file layer, or through SQLite's own when vfs
// is empty.
func connect(path, vfs string) (*conn, error) {
	// No mutex: there is one goroutine.
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_NOMUTEX
	c := &conn{tls: libc.NewTLS(), stmts: make(map[string]*stmt)}
	name, err := c.cString(path)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	defer libc.Xfree(c.tls, name)
	layer := uintptr(0)
	if vfs != "" {
		if layer, err = c.cString(vfs); err != nil {
			return nil, errors.Join(err, c.close())
		}
		defer libc.Xfree(c.tls, layer)
	}
	out, err := c.malloc(int(unsafe.Sizeof(c.db)))
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	defer libc.Xfree(c.tls, out)
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, out, flags, layer)
	c.db = *pointed[uintptr](out) // there is one after most failures, to tell why
	if rc == sqlite3.SQLITE_OK {
		rc = sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	}
	if rc != sqlite3.SQLITE_OK {
		return nil, errors.Join(c.failed(rc), c.close())
	}
	return c, nil
}

// prepare returns the statement of a query.
func (c *conn) prepare(query string) (*stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	text, err := c.cString(query)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	s, rest, err := c.compile(text)
	if err == nil && rest != text+uintptr(len(query)) {
		err = errors.Join(errors.New("it is more than one statement"), c.finalize(s))
	}
	if err != nil {
		return nil, fmt.Errorf("prepare %.60q: %w", query, err)
	}
	c.stmts[query] = s
	return s, nil
}

// compile prepares the first statement of a text and says where the rest is.
// A rest without a statement gives one whose p is zero.
func (c *conn) compile(text uintptr) (s *stmt, rest uintptr, err error) {
	const pointer = unsafe.Sizeof(text)
	out, err := c.malloc(2 * int(pointer))
	if err != nil {
		return nil, 0, err
	}
	defer libc.Xfree(c.tls, out)
	if rc := sqlite3.Xsqlite3_prepare_v2(c.tls, c.db, text, -1, out, out+pointer); rc != sqlite3.SQLITE_OK {
		return nil, 0, c.failed(rc)
	}
	s = &stmt{p: *pointed[uintptr](out)}
	s.columns = int(sqlite3.Xsqlite3_column_count(c.tls, s.p))
	return s, *pointed[uintptr](out + pointer), nil
}

// script runs the statements of a text one after the other.
func (c *conn) script(text string) error {
	at, err := c.cString(text)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, at)
	for end := at + uintptr(len(text)); at < end; {
		s, rest, err := c.compile(at)
		if err != nil || s.p == 0 {
			return err
		}
		err = c.run(s, func(row) error { return nil })
		if err := errors.Join(err, c.finalize(s)); err != nil {
			return err
		}
		at = rest
	}
	return nil
}

// exec runs a statement and returns how many rows it changed. Arguments are
// int64, string, bool, []byte or nil.
func (c *conn) exec(query string, args ...any) (int64, error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	if err := c.bind(s, args); err != nil {
		return 0, err
	}
	rc := sqlite3.Xsqlite3_step(c.tls, s.p)
	for rc == sqlite3.SQLITE_ROW {
		rc = sqlite3.Xsqlite3_step(c.tls, s.p)
	}
	if rc != sqlite3.SQLITE_DONE {
		err := c.failed(rc)
		sqlite3.Xsqlite3_reset(c.tls, s.p) // it says the same again
		return 0, err
	}
	n := int64(sqlite3.Xsqlite3_changes(c.tls, c.db))
	c.changed = c.changed || n > 0
	if rc := sqlite3.Xsqlite3_reset(c.tls, s.p); rc != sqlite3.SQLITE_OK {
		return 0, c.failed(rc)
	}
	return n, nil
}

// rows runs a query and calls each for every row. The row is valid until each
// returns, but for its texts and blobs, which last; each must not run
// statements.
func (c *conn) rows(query string, each func(row) error, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	if err := c.bind(s, args); err != nil {
		return err
	}
	return c.run(s, each)
}

func (c *conn) run(s *stmt, each func(row) error) error {
	var r row
	for {
		switch rc := sqlite3.Xsqlite3_step(c.tls, s.p); rc {
		case sqlite3.SQLITE_ROW:
			if r == nil {
				r = make(row, s.columns)
			}
			c.read(s, r)
			if err := each(r); err != nil {
				sqlite3.Xsqlite3_reset(c.tls, s.p)
				return err
			}
		case sqlite3.SQLITE_DONE:
			if rc := sqlite3.Xsqlite3_reset(c.tls, s.p); rc != sqlite3.SQLITE_OK {
				return c.failed(rc)
			}
			return nil
		default:
			err := c.failed(rc)
			sqlite3.Xsqlite3_reset(c.tls, s.p) // it says the same again
			return err
		}
	}
}

// first returns the only row of a query, or nil when there is none.
func (c *conn) first(query string, args ...any) (row, error) {
	var got row
	err := c.rows(query, func(r row) error {
		got = append(got, r...)
		return nil
	}, args...)
	return got, err
}

// close gives the connection back, and whatever of it was opened.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, c.finalize(s))
	}
	clear(c.stmts)
	if rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db); rc != sqlite3.SQLITE_OK {
		errs = append(errs, c.failed(rc))
	}
	libc.Xfree(c.tls, c.texts)
	c.tls.Close()
	return errors.Join(errs...)
}

func (c *conn) finalize(s *stmt) error {
	if rc := sqlite3.Xsqlite3_finalize(c.tls, s.p); rc != sqlite3.SQLITE_OK {
		return c.failed(rc)
	}
	return nil
}

// failed is SQLite's word for what a call returned.
func (c *conn) failed(rc int32) error {
	general := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		if said := libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db)); said != general {
			return fmt.Errorf("%s: %s (%d)", general, said, rc)
		}
	}
	return fmt.Errorf("%s (%d)", general, rc)
}

// row is one row of an answer. The accessors give the zero value for NULL.
type row []value

// value is a column: an integer, a text or a blob; none of them for NULL.
type value struct {
	i int64
	s string
	b []byte
}

func (r row) int(i int) int64 { return r[i].i }

func (r row) str(i int) string { return r[i].s }

func (r row) bytes(i int) []byte { return r[i].b }

func (r row) time(i int) time.Time { return fromMicros(r.int(i)) }
