package channels

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// ErrForbiddenAddress is the error of a connection to a network that is not
// the public internet. Nothing was sent.
var ErrForbiddenAddress = errors.New("the address is not on the public internet")

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 15 * time.Second
)

// forbidden are the networks that a name given by somebody else must not lead
// to: the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890 and its
// updates), multicast, and the networks that wrap an IPv4 address.
var forbidden = [...]netip.Prefix{
	prefix("0.0.0.0/8"),       // this network
	prefix("10.0.0.0/8"),      // private
	prefix("100.64.0.0/10"),   // carrier-grade NAT
	prefix("127.0.0.0/8"),     // loopback
	prefix("169.254.0.0/16"),  // link-local, cloud metadata
	prefix("172.16.0.0/12"),   // private
	prefix("192.0.0.0/24"),    // protocol assignments
	prefix("192.0.2.0/24"),    // documentation
	prefix("192.88.99.0/24"),  // 6to4 relays
	prefix("192.168.0.0/16"),  // private
	prefix("198.18.0.0/15"),   // benchmarking
	prefix("198.51.100.0/24"), // documentation
	prefix("203.0.113.0/24"),  // documentation
	prefix("224.0.0.0/4"),     // multicast
	prefix("240.0.0.0/4"),     // reserved, broadcast
	prefix("::/96"),           // unspecified, loopback, IPv4-compatible
	prefix("::ffff:0:0:0/96"), // IPv4-translated
	prefix("64:ff9b::/96"),    // NAT64
	prefix("64:ff9b:1::/48"),  // local-use NAT64
	prefix("100::/64"),        // discard-only
	prefix("2001::/23"),       // protocol assignments, Teredo
	prefix("2001:db8::/32"),   // documentation
	prefix("2002::/16"),       // 6to4
	prefix("3fff::/20"),       // documentation
	prefix("5f00::/16"),       // segment routing
	prefix("fc00::/7"),        // unique local
	prefix("fe80::/10"),       // link-local
	prefix("fec0::/10"),       // site-local
	prefix("ff00::/8"),        // multicast
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// Forbidden reports whether an IP address is in a network that is not the
// public internet. An IPv4 address in IPv6 notation is judged as IPv4.
func Forbidden(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, p := range forbidden {
		if p.Contains(ip) {
			return true
		}
	}
	return !ip.IsValid()
}

// Dialer returns a dial function that, unless allowPrivate is set, refuses
// with ErrForbiddenAddress every IP address that Forbidden reports. It looks
// at the address of each connection and not at the name, so that a name that
// resolves differently the second time gains nothing. Any port is allowed.
func Dialer(allowPrivate bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	if !allowPrivate {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || Forbidden(ap.Addr()) {
				return fmt.Errorf("dial %s: %w", address, ErrForbiddenAddress)
			}
			return nil
		}
	}
	return d.DialContext
}
