package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// syncRecorder is a file layer of SQLite: the default one, with every write
// and every sync of the write-ahead log noted on its way to the disk.
type syncRecorder struct {
	name string

	// What SQLite was given lives outside Go's memory; the functions in it are
	// kept alive here.
	tls       *libc.TLS
	base      uintptr // of the default layer
	functions [3]any
	logs      sync.Map // of open files: address → the methods of the default layer

	mu     sync.Mutex
	writes int // so far
	synced int // of them
	header []byte
	open   logCommit
	done   []logCommit
}

// logCommit is one transaction in the write-ahead log.
type logCommit struct {
	pages [][]byte
	// last is the number of its last write.
	last int
}

// The layout of the write-ahead log (https://www.sqlite.org/fileformat2.html#walformat).
const (
	logFileHeader  = 32
	logFrameHeader = 24
)

type (
	openFunc  = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	writeFunc = func(tls *libc.TLS, file, buf uintptr, amount int32, offset int64) int32
	syncFunc  = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// pointed is the value at an address that is not Go's.
func pointed[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// toC and fromC turn a function into what SQLite, which is C translated to Go,
// keeps for one, and back.
func toC[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func fromC[F any](f uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{f})) }

var recorders atomic.Int64

// recordSyncs registers a recorder; its name is what a ledger is opened with.
func recordSyncs(t *testing.T) *syncRecorder {
	t.Helper()
	r := &syncRecorder{tls: libc.NewTLS(), name: fmt.Sprintf("recorded-%d", recorders.Add(1))}
	r.base = sqlite3.Xsqlite3_vfs_find(r.tls, 0)
	name, err := libc.CString(r.name)
	if err != nil || r.base == 0 {
		t.Fatalf("find the default file layer: %v", err)
	}
	vfs := libc.Xmalloc(r.tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	v := pointed[sqlite3.Tsqlite3_vfs](vfs)
	*v = *pointed[sqlite3.Tsqlite3_vfs](r.base)
	open, write, sync := openFunc(r.xOpen), writeFunc(r.xWrite), syncFunc(r.xSync)
	r.functions = [3]any{open, write, sync}
	v.FpNext, v.FzName, v.FxOpen = 0, name, toC(open)
	if rc := sqlite3.Xsqlite3_vfs_register(r.tls, vfs, 0); rc != sqlite3.SQLITE_OK {
		t.Fatalf("register the file layer: %d", rc)
	}
	t.Cleanup(func() {
		sqlite3.Xsqlite3_vfs_unregister(r.tls, vfs)
		r.tls.Close()
	})
	return r
}

// xOpen opens a file and, when it is a write-ahead log, puts itself in the way.
func (r *syncRecorder) xOpen(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := fromC[openFunc](pointed[sqlite3.Tsqlite3_vfs](r.base).FxOpen)(tls, r.base, name, file, flags, outFlags)
	f := pointed[sqlite3.Tsqlite3_file](file)
	if rc != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_WAL == 0 || f.FpMethods == 0 {
		return rc
	}
	r.logs.Store(file, f.FpMethods)
	methods := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
	m := pointed[sqlite3.Tsqlite3_io_methods](methods)
	*m = *pointed[sqlite3.Tsqlite3_io_methods](f.FpMethods)
	m.FxWrite, m.FxSync = toC(r.functions[1].(writeFunc)), toC(r.functions[2].(syncFunc))
	f.FpMethods = methods
	return rc
}

func (r *syncRecorder) methods(file uintptr) *sqlite3.Tsqlite3_io_methods {
	base, _ := r.logs.Load(file)
	return pointed[sqlite3.Tsqlite3_io_methods](base.(uintptr))
}

func (r *syncRecorder) xWrite(tls *libc.TLS, file, buf uintptr, amount int32, offset int64) int32 {
	rc := fromC[writeFunc](r.methods(file).FxWrite)(tls, file, buf, amount, offset)
	if rc == sqlite3.SQLITE_OK {
		r.wrote(slices.Clone(unsafe.Slice(pointed[byte](buf), int(amount))), offset)
	}
	return rc
}

func (r *syncRecorder) xSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	r.mu.Lock()
	before := r.writes
	r.mu.Unlock()
	rc := fromC[syncFunc](r.methods(file).FxSync)(tls, file, flags)
	if rc == sqlite3.SQLITE_OK {
		r.mu.Lock()
		r.synced = max(r.synced, before)
		r.mu.Unlock()
	}
	return rc
}

// wrote takes note of a write. A frame is its header, then its page; the
// header of the last one of a commit says how long the database is now.
func (r *syncRecorder) wrote(b []byte, offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	switch {
	case offset == 0 && len(b) == logFileHeader:
		return
	case len(b) == logFrameHeader:
		r.header = b
		return
	}
	r.open.pages = append(r.open.pages, b)
	if len(r.header) == logFrameHeader && binary.BigEndian.Uint32(r.header[4:]) != 0 {
		r.open.last = r.writes
		r.done = append(r.done, r.open)
		r.open = logCommit{}
	}
	r.header = nil
}

// durable says whether the commit that first wrote a key is on the disk by
// now, and if not, why.
func (r *syncRecorder) durable(key string) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.done, func(c logCommit) bool {
		return slices.ContainsFunc(c.pages, func(page []byte) bool { return bytes.Contains(page, []byte(key)) })
	})
	switch {
	case i < 0:
		return "no commit in the log has the key"
	case r.done[i].last > r.synced:
		return notSynced
	}
	return ""
}

// counts is how many commits there were, and how many writes of how many were synced.
func (r *syncRecorder) counts() (commits, writes, synced int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.done), r.writes, r.synced
}
