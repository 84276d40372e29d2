package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/seed-4b260dfd/notifier/channels/simulate"
	"github.com/seed-4b260dfd/notifier/examples"
)

//go:embed initial
var initial embed.FS

// The types that a new folder begins with: one per order, on channels that
// need nothing that has to be asked for first.
var (
	plainTypes     = [...]string{"payment_event", "weekly_digest"}
	simulatedTypes = [...]string{"order_shipped", "weekly_digest"}
)

// newFile is a file that init is about to make.
type newFile struct {
	name    string // relative to the folder, with slashes
	content []byte
}

// initialise makes what a folder needs to serve from. It writes over nothing:
// if one of its files is there, it makes none.
func (c command) initialise(_ context.Context, p *process, args []string) error {
	f := c.flags()
	simulated := f.Bool("simulated", false, "point every channel at simulated providers, and make their keys and certificates")
	got, err := c.parse(p, f, args, "DIR")
	if err != nil {
		return err
	}
	dir := got[0]
	source, types := "initial/notifier.yaml", plainTypes[:]
	if *simulated {
		source, types = "initial/simulated.yaml", simulatedTypes[:]
	}
	files, err := examplesOf(types)
	if err != nil {
		return err
	}
	if err := refuseExisting(dir, append(files, newFile{name: configName})); err != nil {
		return err
	}
	content, err := configuration(dir, source, *simulated)
	if err != nil {
		return err
	}
	// The configuration goes last: while it is not there, init can run again
	// once what it made is removed.
	for _, file := range append(files, newFile{configName, content}) {
		if err := file.write(dir); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "made %s\n", filepath.Join(dir, file.name))
	}
	nextSteps(p, dir, *simulated)
	return nil
}

// settings is what the templates of the configurations name.
type settings struct {
	simulate.Files
	APNsAddr, FCMAddr, SMTPAddr, HTTPAddr string
}

// configuration fills in the file at source.
func configuration(dir, source string, simulated bool) ([]byte, error) {
	s := settings{APNsAddr: simulate.DefaultAPNs, FCMAddr: simulate.DefaultFCM, SMTPAddr: simulate.DefaultSMTP, HTTPAddr: simulate.DefaultHTTP}
	s.WebhookSecret = newSecret()
	if simulated {
		files, err := simulate.Init(dir, simulate.Config{Dir: dir})
		if err != nil {
			return nil, fmt.Errorf("make the simulator's keys in %s: %w", dir, err)
		}
		s.Files = files
		s.APNsKeyFile, s.CAFile = filepath.Base(files.APNsKeyFile), filepath.Base(files.CAFile)
		s.FCMCredentialsFile = filepath.Base(files.FCMCredentialsFile)
	}
	t, err := template.ParseFS(initial, source)
	if err != nil {
		return nil, fmt.Errorf("read the configuration to copy: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return nil, fmt.Errorf("fill in the configuration: %w", err)
	}
	return b.Bytes(), nil
}

// newSecret returns a secret for signing webhooks: 32 random bytes.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails: it ends the process instead
	return "whsec_" + base64.StdEncoding.EncodeToString(b)
}

// examplesOf returns the policies and templates of some examples.
func examplesOf(types []string) ([]newFile, error) {
	var files []newFile
	err := fs.WalkDir(examples.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		folder, rest, _ := strings.Cut(name, "/")
		typ, _, _ := strings.Cut(rest, "/")
		if folder == examples.Policies {
			typ = strings.TrimSuffix(rest, path.Ext(rest))
		}
		if !slices.Contains(types, typ) {
			return nil
		}
		content, err := fs.ReadFile(examples.Files(), name)
		files = append(files, newFile{name, content})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the examples to copy: %w", err)
	}
	return files, nil
}

func refuseExisting(dir string, files []newFile) error {
	var there []string
	for _, file := range files {
		if _, err := os.Lstat(filepath.Join(dir, file.name)); !errors.Is(err, fs.ErrNotExist) {
			there = append(there, file.name)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return fmt.Errorf("%s: there already: %s; nothing was written: name another folder, or remove them", dir, strings.Join(there, ", "))
}

// write makes the file. The configuration holds secrets and is its owner's
// alone. A file that appeared meanwhile is not written over.
func (n newFile) write(dir string) error {
	name := filepath.Join(dir, n.name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", name, err)
	}
	mode := fs.FileMode(0o644)
	if n.name == configName {
		mode = 0o600
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	_, err = f.Write(n.content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// nextSteps prints what to run now, ready to be copied.
func nextSteps(p *process, dir string, simulated bool) {
	serve := "notifier serve"
	if file := filepath.Join(dir, configName); file != configName {
		serve += " -config " + file
	}
	if !simulated {
		fmt.Fprintf(p.stdout, "\nnext: fill in the accounts in %s, run \"notifier check\", then:\n  %s\n", filepath.Join(dir, configName), serve)
		return
	}
	fmt.Fprintf(p.stdout, `
next, each in a terminal of its own:
  notifier simulate -dir %s
  %s
  notifier send -type order_shipped -recipient u_42 -key order-42/shipped -to email=ann@example.com -data order_id=42 -data carrier=DHL -wait 10s
`, dir, serve)
}
