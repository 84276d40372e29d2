// Package servertest starts the servers that tests run against: private Redis
// and Postgres processes on free ports of 127.0.0.1, in temporary folders, that
// can be killed, stopped for a while, emptied, restarted and put back to a
// backup; and a TCP proxy that loses replies on demand.
//
// It promises that a server which is handed out answers, that no two servers of
// this machine share a port or a folder, whichever process started them, that
// durability is switched on as in production, and that every server ends with
// the process that started it, however that ends. What a killed process left in
// the temporary folder is removed by the next one.
//
// It does not promise speed, security (whoever reaches the port is let in) or
// any system but Linux: elsewhere a killed test process leaves its servers. A
// missing binary fails the test; only -short leaves such tests out.
//
// The New functions belong to one test: they fail it and clean up after it. The
// Start functions are for programs: they return errors, and their servers want a
// Stop. Methods return their error to both, and a test is failed by it as well,
// so that it may leave the result alone.
package servertest

import (
	"os"
	"sync"
	"testing"
)

// shared holds the servers that belong to the process and not to a test. It is
// the one variable of the package, because one per process is what it is for.
var shared struct {
	mu       sync.Mutex
	redis    *Redis
	postgres *Postgres
}

// Main runs the tests of a package and stops the shared servers after them:
//
//	func TestMain(m *testing.M) { servertest.Main(m) }
//
// Without it they end too, together with the process, but their folders stay
// until the next process that uses this package.
func Main(m *testing.M) {
	code := m.Run()
	StopShared()
	os.Exit(code)
}

// StopShared stops the shared servers and removes the process's folder.
func StopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.redis != nil {
		_ = shared.redis.Stop()
		shared.redis = nil
	}
	if shared.postgres != nil {
		_ = shared.postgres.Stop()
		shared.postgres = nil
	}
	removeWorkspace()
}

// SharedRedis is one standalone server for all tests of the process. Whoever
// uses it keeps to keys of its own and does it no harm.
func SharedRedis(tb testing.TB) *Redis {
	tb.Helper()
	wanted(tb)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.redis == nil {
		r, err := StartRedis()
		if err != nil {
			tb.Fatal(err)
		}
		shared.redis = r
	}
	view := *shared.redis
	view.tb = tb
	return &view
}

// SharedPostgres is one server for all tests of the process. Whoever uses it
// works in a Database of its own and does the server no harm.
func SharedPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	wanted(tb)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.postgres == nil {
		p, err := StartPostgres()
		if err != nil {
			tb.Fatal(err)
		}
		p.shared = true
		shared.postgres = p
	}
	view := *shared.postgres
	view.tb = tb
	return &view
}

// wanted leaves a test out that was asked to be short.
func wanted(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short: the servers that this test needs are not started")
	}
}

// fail reports an error to the test, if there is one, and returns it.
func fail(tb testing.TB, err error) error {
	if tb != nil && err != nil {
		tb.Helper()
		tb.Error(err)
	}
	return err
}
