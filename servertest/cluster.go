package servertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slots is how many a Redis Cluster has.
const slots = 16384

// clusterNodes is the least that a Redis Cluster is happy with.
const clusterNodes = 3

// Cluster is three masters that share all slots and have no replicas.
type Cluster struct {
	tb    testing.TB
	nodes []*Redis
	buses []*port
}

// NewRedisCluster starts a cluster for a test. The arguments are options of
// redis-server for every node.
func NewRedisCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	wanted(tb)
	c, err := StartRedisCluster(args...)
	if err != nil {
		tb.Fatal(err)
	}
	c.tb = tb
	for _, node := range c.nodes {
		node.tb = tb
	}
	tb.Cleanup(func() { _ = c.Stop() })
	return c
}

// StartRedisCluster is NewRedisCluster for programs.
func StartRedisCluster(args ...string) (*Cluster, error) {
	var c *Cluster
	err := onFreePorts(2*clusterNodes, func(ports []*port) error {
		c = &Cluster{buses: ports[clusterNodes:]}
		err := c.start(ports[:clusterNodes], args)
		if err != nil {
			_ = c.Stop()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ports []*port, args []string) error {
	ids := make([]string, clusterNodes)
	for i := range ids {
		ids[i] = randomID()
	}
	for i, p := range ports {
		node, err := prepareRedis("cluster", p, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(c.buses[i].number),
			"--cluster-node-timeout", "5000",
		}, args...)...)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
		// Beside the data and not in it: a node that is emptied stays the node it was.
		table := filepath.Join(node.proc.dir, "nodes.conf")
		if err := os.WriteFile(table, []byte(c.table(ids, ports, i)), 0o600); err != nil {
			return err
		}
		node.proc.args = append(node.proc.args, "--cluster-config-file", table)
		if err := node.proc.start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.awaitOK(ctx)
}

// table is what a node remembers of its cluster over a restart. Written ahead,
// it saves the minutes of gossip in which nodes get to know each other.
func (c *Cluster) table(ids []string, ports []*port, myself int) string {
	var b strings.Builder
	for i, id := range ids {
		flags := "master"
		if i == myself {
			flags = "myself,master"
		}
		fmt.Fprintf(&b, "%s %s@%d %s - 0 0 %d connected %d-%d\n", id, ports[i].addr(), c.buses[i].number,
			flags, i+1, i*slots/clusterNodes, (i+1)*slots/clusterNodes-1)
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", clusterNodes)
	return b.String()
}

func randomID() string {
	var id [20]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// AwaitOK waits until every node says that all slots are served: two seconds
// after a start, and after a node has come back.
func (c *Cluster) AwaitOK(ctx context.Context) error { return fail(c.tb, c.awaitOK(ctx)) }

func (c *Cluster) awaitOK(ctx context.Context) error {
	return poll(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		for _, node := range c.nodes {
			info, err := node.Client().ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots)} {
				if !strings.Contains(info, want+"\r\n") {
					return fmt.Errorf("await the cluster: %s does not say %s", node.Addr(), want)
				}
			}
		}
		return nil
	})
}

// URL is the cluster's address as a redis+cluster:// URL of all its nodes.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addrs[i] = node.Addr()
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Nodes are the three masters, in the order of their slots.
func (c *Cluster) Nodes() []*Redis { return c.nodes }

// Stop kills the cluster for good and removes its data.
func (c *Cluster) Stop() error {
	var first error
	for _, node := range c.nodes {
		if err := node.Stop(); err != nil && first == nil {
			first = err
		}
	}
	for _, bus := range c.buses {
		bus.free()
	}
	return first
}
