package notifier_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/seed-4b260dfd/notifier"

// imports is what one package may import besides the standard library.
type imports struct {
	// ours are packages of this module, by folder; "." is the root.
	ours []string
	// theirs are other modules, or packages of them.
	theirs []string
	// tests are what the package's tests may import on top, of either kind.
	// Every package's tests may import the package itself and go-cmp.
	tests []string
}

const (
	gocmp      = "github.com/google/go-cmp"
	jsonv2     = "github.com/go-json-experiment/json"
	prometheus = "github.com/prometheus/client_golang"
	yaml       = "go.yaml.in/yaml/v3"
	http2      = "golang.org/x/net/http2"
	jwt        = "github.com/golang-jwt/jwt/v4"
	firebase   = "firebase.google.com/go/v4"
	sys        = "golang.org/x/sys"
	goredis    = "github.com/redis/go-redis/v9"
	pgx        = "github.com/jackc/pgx/v5"
)

// everything stands for all packages of this module: the command wires them.
const everything = "*"

// graph is the allowed import graph: a star around delivery. The leaves do not
// know each other, and a module of somebody else's stays in the packages that
// name it here. A new arrow, or a new package, is a decision: it is made here.
var graph = map[string]imports{
	".":          {},
	"strictyaml": {theirs: []string{yaml}},
	"pure":       {},
	"policy":     {ours: []string{".", "strictyaml", "pure"}},
	"templates":  {ours: []string{".", "strictyaml", "pure"}},

	// servertest starts the servers that tests run against; no product code
	// imports it. redisscript is how claims and caps talk to Redis.
	"servertest":      {theirs: []string{goredis, pgx}},
	"servertest/with": {ours: []string{"servertest"}},
	"redisscript":     {theirs: []string{goredis}, tests: []string{"servertest"}},

	"claims": {
		ours: []string{"redisscript"}, theirs: []string{goredis},
		tests: []string{"claims/claimstest", "servertest"},
	},
	"claims/claimstest": {ours: []string{"claims"}},
	"caps": {
		ours: []string{"redisscript"}, theirs: []string{goredis},
		tests: []string{"caps/capstest", "servertest"},
	},
	"rates": {
		ours:  []string{"redisscript"},
		tests: []string{"rates/ratestest", "servertest"},
	},
	"rates/ratestest": {ours: []string{"rates"}},
	"redisaudit":      {ours: []string{"redisscript"}, theirs: []string{goredis}, tests: []string{"servertest"}},
	"caps/capstest":   {ours: []string{"caps"}},

	"channels": {ours: []string{".", "strictyaml"}, theirs: []string{http2}},
	"channels/apns": {
		ours:   []string{".", "channels", "templates", "strictyaml"},
		theirs: []string{"github.com/sideshow/apns2", http2},
		tests:  []string{"channels/channelstest", "channels/simulate", jwt},
	},
	"channels/fcm": {
		ours:   []string{".", "channels"},
		theirs: []string{firebase, "golang.org/x/oauth2", "google.golang.org/api/option"},
		tests:  []string{"channels/channelstest", "channels/simulate"},
	},
	"channels/email": {
		ours:   []string{".", "channels", "templates", "strictyaml"},
		theirs: []string{"github.com/wneessen/go-mail", "github.com/emersion/go-smtp", "github.com/emersion/go-sasl"},
		tests:  []string{"channels/channelstest", "channels/simulate"},
	},
	"channels/sms": {
		ours:  []string{".", "channels"},
		tests: []string{"channels/channelstest", "channels/simulate"},
	},
	"channels/webhook": {
		ours:   []string{".", "channels", "templates", "strictyaml"},
		theirs: []string{"github.com/standard-webhooks/standard-webhooks"},
		tests:  []string{"channels/channelstest", "channels/simulate"},
	},
	"channels/webpush": {
		ours:   []string{".", "channels", "templates", "strictyaml"},
		theirs: []string{"github.com/SherClockHolmes/webpush-go"},
		tests:  []string{"channels/channelstest", "channels/simulate"},
	},
	"channels/simulate": {
		ours: []string{".", "templates", "channels"},
		theirs: []string{
			"github.com/emersion/go-smtp", "github.com/emersion/go-sasl", jwt,
			"github.com/standard-webhooks/standard-webhooks", http2,
		},
	},
	"channels/channelstest": {ours: []string{".", "channels", "channels/simulate"}, theirs: []string{gocmp}},

	"ledger": {ours: []string{"."}},
	"ledger/sqlite": {
		ours:   []string{".", "ledger"},
		theirs: []string{"modernc.org/sqlite", "modernc.org/libc", sys},
		tests:  []string{"ledger/ledgertest"},
	},
	"ledger/postgres": {
		ours:   []string{".", "ledger"},
		theirs: []string{pgx},
		tests:  []string{"ledger/ledgertest", "servertest"},
	},
	"ledger/ledgertest": {ours: []string{"."}, theirs: []string{gocmp}},

	"delivery": {
		ours:   []string{".", "policy", "templates", "claims", "caps", "rates", "channels"},
		theirs: []string{prometheus, jsonv2, sys},
		tests:  []string{"ledger/sqlite", "channels/simulate", "strictyaml", "servertest", "redisscript"},
	},
	"api": {
		ours:   []string{"."},
		theirs: []string{prometheus, jsonv2},
	},
	"examples": {},
	"cmd/notifier": {
		ours:   []string{everything},
		theirs: []string{prometheus, jsonv2, "github.com/sideshow/apns2", http2, sys, goredis},
		tests:  []string{pgx, yaml, "modernc.org/sqlite", "modernc.org/libc"}, // looks into the file that a killed server left, and at its syncs
	},
}

// TestImports reads every Go file of the module, whatever its build tags.
func TestImports(t *testing.T) {
	t.Parallel()
	arrows := 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name, entry)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		rules, ok := graph[dir]
		if !ok {
			t.Errorf("%s: the package in %s is not in the import graph", name, dir)
			return nil
		}
		for _, imported := range importsOf(t, name) {
			arrows++
			if !rules.allow(dir, imported, strings.HasSuffix(name, "_test.go")) {
				t.Errorf("%s: %s may not import %s", name, dir, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if arrows < 100 {
		t.Errorf("only %d imports were looked at", arrows)
	}
}

// enter skips what is not of this module.
func enter(name string, entry fs.DirEntry) error {
	if name == "." {
		return nil
	}
	if entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func importsOf(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("read the imports: %v", err)
		return nil
	}
	var all []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all = append(all, imported)
	}
	return all
}

// allow reports whether a package, or one of its tests, may import another.
func (r imports) allow(dir, imported string, test bool) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return imported != "C" && imported != "plugin"
	}
	if test && imported == path.Join(modulePath, dir) {
		return true
	}
	if folder, ok := ourFolder(imported); ok {
		return slices.Contains(r.ours, folder) || slices.Contains(r.ours, everything) || test && slices.Contains(r.tests, folder)
	}
	within := func(module string) bool { return imported == module || strings.HasPrefix(imported, module+"/") }
	return slices.ContainsFunc(r.theirs, within) || test && (within(gocmp) || slices.ContainsFunc(r.tests, within))
}

func ourFolder(imported string) (string, bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

// The graph itself keeps to the design: whoever changes it by mistake is told.
func TestImports_GraphIsAStar(t *testing.T) {
	t.Parallel()
	for dir, rules := range graph {
		if dir == "cmd/notifier" {
			continue
		}
		for _, folder := range rules.ours {
			if _, ok := graph[folder]; !ok {
				t.Errorf("%s may import %s, which is not in the graph", dir, folder)
			}
			if folder == "delivery" || folder == "api" || strings.HasPrefix(folder, "ledger/") {
				t.Errorf("%s may import %s, which only the command wires", dir, folder)
			}
		}
	}
	for _, c := range []struct {
		dir, imported string
		test, want    bool
	}{
		{".", modulePath + "/claims", false, false},
		{".", "fmt", false, true},
		{"claims", modulePath, false, false},
		{"claims", modulePath, true, false},
		{"claims", modulePath + "/claims", true, true},
		{"claims", modulePath + "/claims/claimstest", false, false},
		{"claims", modulePath + "/claims/claimstest", true, true},
		{"delivery", modulePath + "/ledger/sqlite", false, false},
		{"delivery", modulePath + "/ledger/sqlite", true, true},
		{"policy", gocmp + "/cmp", false, false},
		{"policy", gocmp + "/cmp", true, true},
		{"policy", yaml, false, false},
		{"strictyaml", yaml, false, true},
		{"strictyaml", yaml + "x", false, false},
		{"delivery", "modernc.org/sqlite", true, false},
		{"cmd/notifier", modulePath + "/api", false, true},
		{"cmd/notifier", "modernc.org/sqlite", false, false},
		{"api", "C", false, false},
	} {
		if got := graph[c.dir].allow(c.dir, c.imported, c.test); got != c.want {
			t.Errorf("%s imports %s (in a test: %v): allowed %v, want %v", c.dir, c.imported, c.test, got, c.want)
		}
	}
}
