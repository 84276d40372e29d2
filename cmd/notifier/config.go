package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier/api"
	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// configName is the configuration that is read when no other is named.
const configName = "notifier.yaml"

// configFile is notifier.yaml as it is written, laid over the defaults. The
// fields of type any are read so that they can be refused by name.
type configFile struct {
	Listen struct {
		HTTP  string `yaml:"http"`
		GRPC  any    `yaml:"grpc"`
		Admin any    `yaml:"admin"`
	} `yaml:"listen"`
	TLS struct {
		CertFile     any `yaml:"cert_file"`
		KeyFile      any `yaml:"key_file"`
		ClientCAFile any `yaml:"client_ca_file"`
	} `yaml:"tls"`
	PublicURL any    `yaml:"public_url"`
	Ledger    string `yaml:"ledger"`
	Claims    string `yaml:"claims"`
	Policies  string `yaml:"policies"`
	Templates string `yaml:"templates"`
	Retention struct {
		Content any    `yaml:"content"`
		Records string `yaml:"records"`
	} `yaml:"retention"`
	SealKeys any             `yaml:"seal_keys"`
	Only     any             `yaml:"only"`
	Channels channelAccounts `yaml:"channels"`
	Tenants  any             `yaml:"tenants"`
	APIKeys  []api.Key       `yaml:"api_keys"`
	Log      struct {
		Level  string `yaml:"level"`
		Format string `yaml:"format"`
	} `yaml:"log"`
}

// builtIn is what holds where the file says nothing: all of it embedded, on loopback.
func builtIn() *configFile {
	c := &configFile{Ledger: "sqlite:notifier.db", Claims: "memory", Policies: "policies", Templates: "templates"}
	c.Listen.HTTP = "127.0.0.1:8080"
	c.Log.Level, c.Log.Format = "info", "json"
	return c
}

// config is the configuration, checked and with every path ready to be opened.
type config struct {
	*configFile
	// file is where it was read from; empty: there is none, and the defaults hold.
	file string
	// ledger is the path of the SQLite file; empty: the ledger is in Postgres.
	ledger string
	// recordsKept is how long a Postgres ledger keeps what is finished.
	recordsKept time.Duration

	doc     *strictyaml.Document
	secrets []string
}

// loadConfig reads the configuration and returns every problem in it. A file
// that is not there is a fault if it was asked for, and otherwise means that
// the defaults hold.
func loadConfig(file string, asked bool, getenv func(string) string) (*config, []strictyaml.Problem, error) {
	src, err := os.ReadFile(file)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && asked:
		return nil, nil, fmt.Errorf(`there is no configuration %s: name another with -config, or run "notifier init %s"`, file, filepath.Dir(file))
	case err != nil && !missing:
		return nil, nil, fmt.Errorf("read the configuration: %w", err)
	}
	c := &config{configFile: builtIn(), file: file}
	if missing {
		c.file = ""
	}
	var problems []strictyaml.Problem
	c.doc, problems = strictyaml.Decode(file, src, c.configFile)
	e := &expander{doc: c.doc, dir: filepath.Dir(file), getenv: getenv}
	e.walk(reflect.ValueOf(c.configFile).Elem(), nil)
	c.secrets = e.secrets
	c.Policies, c.Templates = e.path(c.Policies), e.path(c.Templates)
	if name, ok := strings.CutPrefix(c.Ledger, "sqlite:"); ok && name != "" {
		c.ledger = e.path(name)
	}
	problems = append(problems, e.problems...)
	for _, p := range c.check() {
		// What a wrong reference left empty is not reported a second time.
		if !slices.ContainsFunc(e.problems, func(q strictyaml.Problem) bool { return q.Line == p.Line }) {
			problems = append(problems, p)
		}
	}
	for i := range problems {
		problems[i].Message = redact(c.secrets, problems[i].Message)
	}
	return c, strictyaml.Sort(problems), nil
}
