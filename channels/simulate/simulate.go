// Package simulate is the providers' side of the channels: APNs over HTTP/2,
// FCM with its token endpoint, a Web Push service with its browsers, a mail
// server, Twilio's messages and a webhook receiver, as strict as the real ones
// about headers, sizes, tokens and authentication, with faults that can be
// switched on.
//
// What a provider received whole is one line in its log, written before it
// answers: the log, not a counter in memory, is the oracle for how often a
// message took effect. A simulator that is killed and started again in the
// same folder goes on with the same log.
//
// It does not do: APNs' rule that a connection with token authentication
// starts at one stream, separate sandbox and production tokens, broadcast
// channels, SMTP pipelining's edge cases beyond reading command by command.
package simulate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"
)

// Where the command listens unless told otherwise.
const (
	DefaultAPNs = "127.0.0.1:2197"
	DefaultSMTP = "127.0.0.1:2525"
	DefaultHTTP = "127.0.0.1:2080"
	DefaultFCM  = "127.0.0.1:2443"
)

// LogName is the name of the log within Config.Dir.
const LogName = "provider.log"

// Config says where the simulator keeps its files and where it listens.
type Config struct {
	// Dir holds keys, certificates and the log. Init fills it when it is empty.
	Dir string
	// APNs, SMTP and HTTP are listen addresses on loopback; empty means any
	// free port. HTTP has the webhook receiver, the push service, Twilio's API and
	// the control endpoints.
	// FCM has the OAuth token endpoint too.
	APNs, SMTP, HTTP, FCM string
	// Seed makes faults with a probability repeatable.
	Seed uint64

	// wrapLog lets a test stand between the log and its file.
	wrapLog func(io.WriteCloser) io.WriteCloser
}

// Server is the running providers.
type Server struct {
	files   Files
	journal *journal
	faults  *faults
	apns    *apnsServer
	fcm     *fcmServer
	smtp    *smtpServer
	web     *http.Server
	push    *pushService

	apnsL, smtpL, httpL, fcmL net.Listener

	done      chan struct{} // closed by Close: ends every wait
	closeOnce sync.Once
	wg        sync.WaitGroup
}

// Start opens the log, makes the files that are missing and serves until Close.
func Start(cfg Config) (*Server, error) {
	files, err := Init(cfg.Dir, cfg)
	if err != nil {
		return nil, err
	}
	key, err := files.apnsPublicKey()
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load the certificate %q: %w", files.CertFile, err)
	}
	s := &Server{files: files, faults: newFaults(cfg.Seed), done: make(chan struct{})}
	if err := s.listen(cfg); err != nil {
		return nil, err
	}
	if s.journal, err = openJournal(filepath.Join(cfg.Dir, LogName), cfg.wrapLog); err != nil {
		s.closeListeners()
		return nil, err
	}
	s.apns = newAPNsServer(s, key, cert)
	s.smtp = newSMTPServer(s, cert)
	s.push = newPushService(files.WebPushSeed)
	if err := s.startFCM(cert); err != nil {
		s.closeListeners()
		return nil, errors.Join(err, s.journal.Close())
	}
	s.web = newWebServer(s)
	s.serve()
	return s, nil
}

// startFCM makes the provider that the service account's file points at.
func (s *Server) startFCM(cert tls.Certificate) error {
	account, err := readAccount(s.files.FCMCredentialsFile, s.fcmL.Addr().String())
	if err != nil {
		return err
	}
	s.fcm, err = newFCMServer(s, account, cert)
	return err
}

func (s *Server) listen(cfg Config) (err error) {
	for _, l := range []struct {
		addr string
		into *net.Listener
	}{{cfg.APNs, &s.apnsL}, {cfg.SMTP, &s.smtpL}, {cfg.HTTP, &s.httpL}, {cfg.FCM, &s.fcmL}} {
		if *l.into, err = listenLoopback(l.addr); err != nil {
			s.closeListeners()
			return err
		}
	}
	return nil
}

// listenLoopback refuses other interfaces: the control endpoints have no
// password, and the keys are on disk in the clear.
func listenLoopback(addr string) (net.Listener, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen address %q: the simulator listens on loopback only, such as 127.0.0.1:2080", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", addr, err)
	}
	return l, nil
}

func (s *Server) serve() {
	s.wg.Go(func() { s.accept(s.apnsL, s.apns.serveConn) })
	s.wg.Go(func() { s.accept(s.smtpL, s.smtp.serveConn) })
	s.wg.Go(func() { s.accept(s.fcmL, s.fcm.serveConn) })
	s.wg.Go(func() { _ = s.web.Serve(s.httpL) })
}

// accept hands each connection to serve and closes it afterwards, or when the
// server closes.
func (s *Server) accept(l net.Listener, serve func(net.Conn)) {
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors: the peers wait in the backlog meanwhile.
			if !s.sleep(10 * time.Millisecond) {
				return
			}
			continue
		}
		s.wg.Go(func() {
			ended := make(chan struct{})
			s.wg.Go(func() {
				select {
				case <-s.done:
				case <-ended:
				}
				_ = nc.Close()
			})
			serve(nc)
			close(ended)
		})
	}
}

// sleep waits for d, or for the end of the server when d is negative; false
// says that the server ended.
func (s *Server) sleep(d time.Duration) bool {
	var after <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-after:
		return true
	case <-s.done:
		return false
	}
}

// Close drops every connection and closes the log.
func (s *Server) Close() error {
	var err error
	s.closeOnce.Do(func() {
		close(s.done)
		s.closeListeners()
		_ = s.web.Close()
		s.wg.Wait()
		err = s.journal.Close()
	})
	return err
}

func (s *Server) closeListeners() {
	for _, c := range []io.Closer{s.apnsL, s.smtpL, s.httpL, s.fcmL} {
		if l, ok := c.(net.Listener); ok && l != nil {
			_ = l.Close()
		}
	}
}

// APNsURL is the base URL of the simulated APNs.
func (s *Server) APNsURL() string { return "https://" + s.apnsL.Addr().String() }

// FCMURL is the base URL of the simulated FCM, before /v1.
func (s *Server) FCMURL() string { return "https://" + s.fcmL.Addr().String() }

// SMTPAddr is the host and port of the mail server.
func (s *Server) SMTPAddr() string { return s.smtpL.Addr().String() }

// HTTPURL is the base URL of Twilio's API, webhook receiver and control endpoints.
func (s *Server) HTTPURL() string { return "http://" + s.httpL.Addr().String() }

// CAFile is the certificate authority that signed the simulator's certificates.
func (s *Server) CAFile() string { return s.files.CAFile }

// Files is what Init made: keys, ids and secrets that the simulator knows.
func (s *Server) Files() Files { return s.files }

// SetFaults replaces all faults. It panics on a fault that CheckFaults
// refuses, which is a mistake in the program that sets it.
func (s *Server) SetFaults(f []Fault) {
	if err := CheckFaults(f); err != nil {
		panic(err)
	}
	s.faults.set(f)
}

// Effects is the log: every request received whole, with and without effect,
// in the order in which they were written.
func (s *Server) Effects() []Entry {
	entries, err := ReadLog(s.journal.path)
	if err != nil {
		// The file that this process holds open cannot be read: nothing that a
		// caller could do, and an empty answer would read as "no effects".
		panic(err)
	}
	return entries
}

// Inbox is what devices, mailboxes and webhook receivers show.
func (s *Server) Inbox() []Message { return Collapse(s.Effects()) }
