package redisscript

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// Script is the source of a Lua script that is safe to repeat.
type Script struct {
	source string
	// digest is the name that a server knows the source by.
	digest string
}

// New returns the script with a source.
func New(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, digest: hex.EncodeToString(sum[:])}
}

// command returns the words of a call: by the digest, which most servers know
// most of the time, or with the source, which teaches it to the server.
func (s *Script) command(withSource bool, keys []string, args []any) []any {
	words := make([]any, 0, 3+len(keys)+len(args))
	if withSource {
		words = append(words, "eval", s.source)
	} else {
		words = append(words, "evalsha", s.digest)
	}
	words = append(words, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	return append(words, args...)
}

// sentOnce is a command that go-redis does not send again by itself. One of
// them in a pipeline is enough to say it for all: on a cluster client this is
// the only way, because there MaxRetries bounds nothing.
type sentOnce struct{ *redis.Cmd }

// NoRetry says so to go-redis.
func (sentOnce) NoRetry() bool { return true }
