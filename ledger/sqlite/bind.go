package sqlite

import (
	"errors"
	"fmt"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// bind gives a statement all of its arguments.
func (c *conn) bind(s *stmt, args []any) error {
	if err := c.makeRoom(args); err != nil {
		return err
	}
	at := c.texts
	for i, a := range args {
		n, rc := int32(i+1), int32(sqlite3.SQLITE_OK)
		switch a := a.(type) {
		case nil:
			rc = sqlite3.Xsqlite3_bind_null(c.tls, s.p, n)
		case int64:
			rc = sqlite3.Xsqlite3_bind_int64(c.tls, s.p, n, a)
		case bool:
			rc = sqlite3.Xsqlite3_bind_int64(c.tls, s.p, n, int64(count(a)))
		case string:
			copy(memory(at, len(a)), a)
			rc = sqlite3.Xsqlite3_bind_text(c.tls, s.p, n, at, int32(len(a)), sqlite3.SQLITE_STATIC)
			at += uintptr(len(a))
		case []byte:
			if a == nil {
				rc = sqlite3.Xsqlite3_bind_null(c.tls, s.p, n)
				break
			}
			copy(memory(at, len(a)), a)
			rc = sqlite3.Xsqlite3_bind_blob(c.tls, s.p, n, at, int32(len(a)), sqlite3.SQLITE_STATIC)
			at += uintptr(len(a))
		default:
			// Its type is not named: that would move every argument of every
			// statement to the heap.
			return fmt.Errorf("argument %d is of a type that is not stored", n)
		}
		if rc != sqlite3.SQLITE_OK {
			return c.failed(rc)
		}
	}
	return nil
}

// makeRoom sees to it that the texts and blobs of the arguments fit in texts.
func (c *conn) makeRoom(args []any) error {
	const least, most = 16 << 10, 1 << 30 // SQLite's own limit for a value
	need := 0
	for _, a := range args {
		switch a := a.(type) {
		case string:
			need += len(a)
		case []byte:
			need += len(a)
		}
	}
	if need > most {
		return fmt.Errorf("the values have %d bytes; at most %d are allowed", need, most)
	}
	if need < c.room {
		return nil
	}
	libc.Xfree(c.tls, c.texts)
	c.texts, c.room = 0, 0
	p, err := c.malloc(max(least, 2*need))
	if err != nil {
		return err
	}
	c.texts, c.room = p, max(least, 2*need)
	return nil
}

// read takes the columns of the row that a statement stands on.
func (c *conn) read(s *stmt, r row) {
	for i := range r {
		n := int32(i)
		switch sqlite3.Xsqlite3_column_type(c.tls, s.p, n) {
		case sqlite3.SQLITE_INTEGER:
			r[i] = value{i: sqlite3.Xsqlite3_column_int64(c.tls, s.p, n)}
		case sqlite3.SQLITE_TEXT:
			p := sqlite3.Xsqlite3_column_text(c.tls, s.p, n)
			r[i] = value{s: string(memory(p, int(sqlite3.Xsqlite3_column_bytes(c.tls, s.p, n))))}
		case sqlite3.SQLITE_BLOB:
			p := sqlite3.Xsqlite3_column_blob(c.tls, s.p, n)
			r[i] = value{b: append([]byte{}, memory(p, int(sqlite3.Xsqlite3_column_bytes(c.tls, s.p, n)))...)}
		default:
			r[i] = value{}
		}
	}
}

// errMemory says that SQLite's side has no memory left.
var errMemory = errors.New("out of memory")

func (c *conn) malloc(n int) (uintptr, error) {
	p := libc.Xmalloc(c.tls, types.Size_t(n))
	if p == 0 {
		return 0, errMemory
	}
	return p, nil
}

// cString copies a text to SQLite's side, with a zero at its end.
func (c *conn) cString(s string) (uintptr, error) {
	p, err := c.malloc(len(s) + 1)
	if err != nil {
		return 0, err
	}
	b := memory(p, len(s)+1)
	b[copy(b, s)] = 0
	return p, nil
}

// memory is what lies at an address on SQLite's side, which the garbage
// collector knows nothing of and moves nothing in.
func memory(address uintptr, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(pointed[byte](address), n)
}

func pointed[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }
