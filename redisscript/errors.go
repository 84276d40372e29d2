package redisscript

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnreachable says that Redis gave no answer that decides anything, for as
// long as Run had patience: not there, not answering, or refusing all writes.
// The call may have been executed, once or several times.
var ErrUnreachable = errors.New("redis is unreachable")

func unreachable(cause error) error {
	return fmt.Errorf("%w: %w", ErrUnreachable, cause)
}

// errNoReply is for a command that go-redis left without a reply and without an
// error: when a connection is refused by a server in words, it tells the
// pipeline and not the commands.
var errNoReply = errors.New("there was no reply")

// refusals begin the replies of a server that cannot decide anything at the
// moment, whatever it is asked. None of them means that the script is at fault.
var refusals = [...]string{
	"LOADING", "BUSY ", "MASTERDOWN", "READONLY", // it starts, it is busy, it is a replica
	"CLUSTERDOWN", "TRYAGAIN", "MOVED ", "ASK ", // the cluster is changing
	"OOM ", "MISCONF", "NOREPLICAS", // it takes no writes
	"NOAUTH", "WRONGPASS", "NOPERM", // it does not take us
	"ERR max number of clients", "ERR max daily request",
	"UNKILLABLE",
}

// undecided reports whether an error leaves open what a call came to, so that
// it is to be made again: everything but a server's word on the script itself.
func undecided(err error) bool {
	var said redis.Error
	if !errors.As(err, &said) {
		return true
	}
	for _, prefix := range refusals {
		if strings.HasPrefix(said.Error(), prefix) {
			return true
		}
	}
	return false
}

// unknownScript reports whether the server does not have the script, and so has
// executed nothing.
func unknownScript(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.HasPrefix(said.Error(), "NOSCRIPT")
}
