package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports come from below the range from which Linux takes the near ends of
// outgoing connections: a server that is down for a while finds its port free
// when it comes back.
const firstPort, lastPort = 10_000, 32_000

// errAddressInUse says that somebody else has the port: the start is tried with
// another one.
var errAddressInUse = errors.New("address already in use")

// port is a port of 127.0.0.1 that belongs to this process until it is given
// back, a server listening on it or not: other users of this package are held off by a
// locked file, everybody else by the look whether it is free.
type port struct {
	number int
	lock   *os.File
}

func newPort() (*port, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("servertest-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of ports in use: %w", err)
	}
	for range 1000 {
		number := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := tryLock(filepath.Join(dir, strconv.Itoa(number)))
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp4", loopback(number))
		if err != nil {
			_ = lock.Close()
			continue
		}
		_ = listener.Close()
		return &port{number: number, lock: lock}, nil
	}
	return nil, errors.New("no port of 127.0.0.1 is free")
}

// free gives the port back. The file stays: removing it would let two
// processes lock one port, each by a file of its own.
func (p *port) free() {
	_ = p.lock.Close()
}

func (p *port) addr() string { return loopback(p.number) }

func loopback(number int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(number)) }

// onFreePorts starts something on n ports, and on others when somebody else
// took one of them first.
func onFreePorts(n int, start func([]*port) error) error {
	for attempt := 0; ; attempt++ {
		ports := make([]*port, n)
		for i := range ports {
			p, err := newPort()
			if err != nil {
				return err
			}
			ports[i] = p
		}
		err := start(ports)
		if err == nil {
			return nil
		}
		for _, p := range ports {
			p.free()
		}
		if !errors.Is(err, errAddressInUse) || attempt == 5 {
			return err
		}
	}
}

func onFreePort(start func(*port) error) error {
	return onFreePorts(1, func(ports []*port) error { return start(ports[0]) })
}
