package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The bounds of connections. Beyond one of them room is made for who comes, by
// ending what has been waited for longest at the address that has most of them:
// a caller that sends slowly waits for itself, and takes nobody's place. An
// honest one behind the same address is told from it by being done soon.
const (
	maxPeers = 4096
	// maxPeersPerAddress is for one address, or one /64 of IPv6. It leaves room
	// for a proxy that brings everybody.
	maxPeersPerAddress = 2048
	// maxArriving bounds the memory of bodies that are still coming in.
	maxArriving = 1024
)

// stage is what a connection is at.
type stage uint8

const (
	// stageWaiting: nothing is known of a request, or not all of its header.
	stageWaiting stage = iota
	// stageArriving: its body is being read.
	stageArriving
	// stageBusy: it is being answered.
	stageBusy
)

// peers are the connections of a server, by where they come from.
type peers struct {
	mu                           sync.Mutex
	max, maxPerAddress, arriving int
	all                          map[net.Conn]*peer
	addresses                    map[netip.Prefix]map[*peer]struct{}
	inBodies                     int
}

// peer is one connection.
type peer struct {
	of    *peers
	conn  net.Conn
	from  netip.Prefix
	stage stage
	since time.Time
	// cut says that it was ended to make room.
	cut bool
}

func newPeers() *peers {
	return &peers{max: maxPeers, maxPerAddress: maxPeersPerAddress, arriving: maxArriving,
		all: map[net.Conn]*peer{}, addresses: map[netip.Prefix]map[*peer]struct{}{}}
}

// watch has a server tell of its connections.
func (ps *peers) watch(s *http.Server) {
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, ps.add(c))
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateClosed, http.StateHijacked:
			ps.remove(c)
		case http.StateNew, http.StateActive, http.StateIdle:
		}
	}
}

type peerKey struct{}

// peerOf is the connection of a request; nil where nobody watches.
func peerOf(r *http.Request) *peer {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	return p
}

// add takes a connection in, and makes room for it.
func (ps *peers) add(c net.Conn) *peer {
	p := &peer{of: ps, conn: c, from: origin(c.RemoteAddr()), since: time.Now()}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.addresses[p.from]) >= ps.maxPerAddress {
		ps.end(oldest(ps.addresses[p.from], stageWaiting, stageArriving))
	}
	if len(ps.all) >= ps.max {
		ps.end(ps.toEnd(stageWaiting, stageArriving))
	}
	ps.all[c] = p
	if ps.addresses[p.from] == nil {
		ps.addresses[p.from] = map[*peer]struct{}{}
	}
	ps.addresses[p.from][p] = struct{}{}
	return p
}

func (ps *peers) remove(c net.Conn) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.all[c]; p != nil {
		ps.drop(p)
	}
}

// drop forgets a connection. The caller holds mu.
func (ps *peers) drop(p *peer) {
	if p.stage == stageArriving {
		ps.inBodies--
		p.stage = stageWaiting
	}
	delete(ps.all, p.conn)
	delete(ps.addresses[p.from], p)
	if len(ps.addresses[p.from]) == 0 {
		delete(ps.addresses, p.from)
	}
}

// end makes room. A body that is arriving is answered for; where nothing has
// been asked yet there is nothing to answer. The caller holds mu.
func (ps *peers) end(p *peer) {
	if p == nil {
		return
	}
	p.cut = true
	if p.stage == stageArriving {
		_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	} else {
		_ = p.conn.Close()
	}
	ps.drop(p)
}

// toEnd is what has been waited for longest, at the address that has most.
func (ps *peers) toEnd(in ...stage) *peer {
	most, at := 0, netip.Prefix{}
	for from, of := range ps.addresses {
		n := 0
		for p := range of {
			if p.in(in) {
				n++
			}
		}
		if n > most {
			most, at = n, from
		}
	}
	return oldest(ps.addresses[at], in...)
}

func (p *peer) in(stages []stage) bool {
	for _, s := range stages {
		if p.stage == s {
			return true
		}
	}
	return false
}

func oldest(of map[*peer]struct{}, in ...stage) (found *peer) {
	for p := range of {
		if p.in(in) && (found == nil || p.since.Before(found.since)) {
			found = p
		}
	}
	return found
}

// is notes what the connection is at.
func (p *peer) is(s stage) {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.cut || p.stage == s {
		return
	}
	if p.stage == stageArriving {
		p.of.inBodies--
	}
	if s == stageArriving {
		if p.of.inBodies >= p.of.arriving {
			p.of.end(p.of.toEnd(stageArriving))
		}
		p.of.inBodies++
	}
	p.stage, p.since = s, time.Now()
}

// wasCut reports whether the connection was ended to make room.
func (p *peer) wasCut() bool {
	if p == nil {
		return false
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.cut
}

// origin is whom an address counts as: of IPv6 the network that a household or
// a machine is given as a whole.
func origin(a net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := ap.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	at, _ := ip.Prefix(bits)
	return at
}
