package servertest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// userMark is how the line of a redis.conf begins that says what a node may do.
const userMark = "# user node on >CHANGE-ME "

// AsNode gives the server the user that a redis.conf describes, in a comment
// since its password is not one, and returns the server's URL for it.
func (r *Redis) AsNode(tb testing.TB, conf string) string {
	tb.Helper()
	return strings.Replace(r.URL(), "redis://", "redis://"+addNode(tb, conf, r)+"@", 1)
}

// AsNode is Redis.AsNode for every server of the cluster.
func (c *Cluster) AsNode(tb testing.TB, conf string) string {
	tb.Helper()
	return strings.Replace(c.URL(), "redis+cluster://", "redis+cluster://"+addNode(tb, conf, c.nodes...)+"@", 1)
}

// addNode returns the user and its password, as they stand in a URL.
func addNode(tb testing.TB, conf string, servers ...*Redis) string {
	tb.Helper()
	const name, password = "node", "no-secret"
	rules, err := nodeRules(conf)
	if err != nil {
		tb.Fatal(err)
	}
	words := []any{"acl", "setuser", name, "reset", "on", ">" + password}
	for _, rule := range rules {
		words = append(words, rule)
	}
	for _, r := range servers {
		if err := r.Client().Do(tb.Context(), words...).Err(); err != nil {
			tb.Fatalf("make the user %s: %v", name, err)
		}
	}
	return name + ":" + password
}

func nodeRules(conf string) ([]string, error) {
	text, err := os.ReadFile(conf)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if rules, ok := strings.CutPrefix(line, userMark); ok {
			return strings.Fields(rules), nil
		}
	}
	return nil, fmt.Errorf("%s: %w", conf, errors.New("no line begins with "+userMark))
}
