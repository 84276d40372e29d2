package servertest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// postgresWire is version 3 of the Postgres protocol, without encryption. A
// reply is complete with ReadyForQuery, which the server sends once after the
// start, after each simple query and after each Sync.
type postgresWire struct {
	started    bool
	statements map[string]string // by name, only touched by the client's side
}

const (
	sslRequest    = 80877103
	gssRequest    = 80877104
	cancelRequest = 80877102
)

func (w *postgresWire) request(r *bufio.Reader) (message, error) {
	if !w.started {
		return w.start(r)
	}
	raw, err := postgresMessage(r)
	if err != nil {
		return message{}, err
	}
	m := message{raw: raw}
	switch raw[0] {
	case 'Q':
		m.view, m.replies = raw, 1
	case 'F':
		m.view, m.replies = raw, 1
	case 'S':
		m.replies = 1
	case 'P':
		name, rest := cString(raw[5:])
		sql, _ := cString(rest)
		w.statements[name] = sql
	case 'B':
		_, rest := cString(raw[5:]) // the portal
		name, _ := cString(rest)
		m.view = append(append([]byte(w.statements[name]), 0), raw...)
	}
	return m, nil
}

// start reads what comes before the first typed message. Encryption is declined
// in the server's name: it could not be read.
func (w *postgresWire) start(r *bufio.Reader) (message, error) {
	head, err := r.Peek(8)
	if err != nil {
		return message{}, err
	}
	raw, err := sized(r, nil)
	if err != nil {
		return message{}, err
	}
	switch binary.BigEndian.Uint32(head[4:]) {
	case sslRequest, gssRequest:
		return message{answer: []byte{'N'}}, nil
	case cancelRequest:
		return message{raw: raw}, nil
	}
	w.started = true
	return message{raw: raw, replies: 1}, nil
}

func (w *postgresWire) reply(r *bufio.Reader) (message, error) {
	raw, err := postgresMessage(r)
	if err != nil {
		return message{}, err
	}
	m := message{raw: raw}
	if raw[0] == 'Z' {
		m.replies = 1
	}
	return m, nil
}

func postgresMessage(r *bufio.Reader) ([]byte, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	return sized(r, []byte{kind})
}

// sized reads a length that includes itself, and as much.
func sized(r *bufio.Reader, into []byte) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n < len(length) || n > largest {
		return nil, errors.New("a Postgres message of no sensible length")
	}
	return readInto(r, append(into, length[:]...), n-len(length))
}

func cString(b []byte) (string, []byte) {
	text, rest, _ := bytes.Cut(b, []byte{0})
	return string(text), rest
}
