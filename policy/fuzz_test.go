package policy_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/policy"
)

// FuzzLoadPolicy holds every file to a list of problems or a policy that loads
// to the same version again and can be used.
func FuzzLoadPolicy(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*/*.yaml"} {
		seeds, err := filepath.Glob(pattern)
		if err != nil || len(seeds) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, seed := range seeds {
			src, err := os.ReadFile(seed)
			if err != nil {
				f.Fatal(err)
			}
			f.Add([]byte("lease: 3m\nretry: {factor: 2}\n"), src)
		}
	}
	f.Fuzz(func(t *testing.T, defaults, src []byte) {
		folder := fstest.MapFS{"_defaults.yaml": {Data: defaults}, "t.yaml": {Data: src}}
		set, problems := policy.Load(folder, ".")
		for _, p := range problems {
			if p.File == "" || p.Line < 1 || p.Message == "" {
				t.Fatalf("problem %#v has no place or no message", p)
			}
		}
		p := set.Policy("t")
		if p == nil {
			if len(problems) == 0 {
				t.Fatal("neither a policy nor a problem")
			}
			return
		}
		again, repeated := policy.Load(folder, ".")
		if got := again.Policy("t").Version; got != p.Version || len(repeated) != len(problems) {
			t.Fatalf("loaded again: version %s with %d problems, want %s with %d", got, len(repeated), p.Version, len(problems))
		}
		data := map[string]any{"order_id": "42"}
		_ = p.CheckData(data)
		_ = p.CapsFor("tenant", "u_1", notifier.ChannelEmail, data)
		for i := range p.Channels {
			_, _ = p.Channels[i].CollapseID(data)
		}
	})
}
