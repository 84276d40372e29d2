package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// message is a piece of a connection that is passed on whole.
type message struct {
	raw []byte
	// view is what a request is recognised by; nil when it is none.
	view []byte
	// replies is how many replies a request asks for, or how many a message
	// from the server completes.
	replies int
	// answer goes back to the client, in place of raw to the server.
	answer []byte
}

// wire cuts the two directions of one connection into messages.
type wire interface {
	request(*bufio.Reader) (message, error)
	reply(*bufio.Reader) (message, error)
}

// wireOf tells the protocol from the first byte that the client sends: a Redis
// command is an array, a Postgres message begins with the length of less than
// 16 MB.
func wireOf(client *bufio.Reader) (wire, error) {
	first, err := client.Peek(1)
	if err != nil {
		return nil, err
	}
	switch first[0] {
	case '*':
		return respWire{}, nil
	case 0:
		return &postgresWire{statements: map[string]string{}}, nil
	default:
		return rawWire{}, nil
	}
}

// rawWire takes what there is as one message.
type rawWire struct{}

func (rawWire) request(r *bufio.Reader) (message, error) { return rawWire{}.reply(r) }

func (rawWire) reply(r *bufio.Reader) (message, error) {
	if _, err := r.Peek(1); err != nil {
		return message{}, err
	}
	raw := make([]byte, r.Buffered())
	_, err := io.ReadFull(r, raw)
	return message{raw: raw, view: raw, replies: 1}, err
}

// respWire is the Redis protocol, versions 2 and 3.
type respWire struct{}

func (respWire) request(r *bufio.Reader) (message, error) {
	raw, err := respValue(r, nil)
	return message{raw: raw, view: raw, replies: 1}, err
}

// reply takes pushes for what they are: nobody asked for them.
func (respWire) reply(r *bufio.Reader) (message, error) {
	raw, err := respValue(r, nil)
	if err != nil {
		return message{}, err
	}
	if raw[0] == '>' {
		return message{raw: raw}, nil
	}
	return message{raw: raw, replies: 1}, nil
}

// largest bounds a value, so that bytes that are no protocol end the connection
// and not the process.
const largest = 512 << 20

// respValue reads one value and appends it to into.
func respValue(r *bufio.Reader, into []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("a RESP line of %q", line)
	}
	into = append(into, line...)
	parts := 0
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return into, nil
	case '$', '=', '!':
		n, err := respLength(line)
		if err != nil || n < 0 {
			return into, err
		}
		return readInto(r, into, n+2)
	case '*', '~', '>':
		parts = 1
	case '%':
		parts = 2
	default:
		return nil, fmt.Errorf("a RESP value that begins with %q", line[0])
	}
	n, err := respLength(line)
	if err != nil {
		return nil, err
	}
	for range max(n, 0) * parts {
		if into, err = respValue(r, into); err != nil {
			return nil, err
		}
	}
	return into, nil
}

func respLength(line []byte) (int, error) {
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil {
		return 0, err
	}
	if n > largest {
		return 0, errors.New("a RESP value too large")
	}
	return n, nil
}

func readInto(r *bufio.Reader, into []byte, n int) ([]byte, error) {
	start := len(into)
	into = append(into, make([]byte, n)...)
	_, err := io.ReadFull(r, into[start:])
	return into, err
}
