package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/policy"
)

// render shows what each channel of a type would be given. It asks nobody.
func (c command) render(_ context.Context, p *process, args []string) error {
	f := c.flags()
	var from projectFlags
	from.define(f, true)
	var data dataFlag
	f.Var(&data, "data", "a datum as `name=value`, or @file.json; may be repeated")
	locale := f.String("locale", "", "the recipient's `locale`, such as fr-CA")
	got, err := c.parse(p, f, args, "TYPE")
	if err != nil {
		return err
	}
	pr, err := from.load(p.getenv)
	if err != nil {
		return err
	}
	pol := pr.policies.Policy(got[0])
	switch {
	case len(pr.policies.Types()) == 0:
		return errors.New(pr.noPolicy())
	case pol == nil:
		return fmt.Errorf("there is no type %q in %s; there are: %s", got[0], pr.Policies, listed(pr.policies.Types()))
	}
	if err := pol.CheckData(data.data); err != nil {
		return errors.New(withAdvice(err))
	}
	for i := range pol.Channels {
		if err := pr.renderChannel(p.stdout, &pol.Channels[i], data.data, *locale); err != nil {
			return err
		}
	}
	return nil
}

// renderChannel prints one channel's content: what is stored at acceptance and
// sent in every attempt.
func (p *project) renderChannel(w io.Writer, ch *policy.Channel, data map[string]any, locale string) error {
	t := p.templates.Find(ch.Template, ch.Channel, locale)
	kind := p.Channels.kinds()[ch.Channel]
	if t == nil || kind == nil {
		return fmt.Errorf(`%s cannot be rendered: run "notifier check", which says why`, ch.Channel)
	}
	fields, err := t.Render(data)
	if err != nil {
		return errors.New(withAdvice(err))
	}
	content, err := kind.Prepare(fields)
	if err != nil {
		return fmt.Errorf("%s: %s", t.File, withAdvice(err))
	}
	collapse, err := ch.CollapseID(data)
	if err != nil {
		return errors.New(withAdvice(err))
	}
	fmt.Fprintf(w, "%s, %d bytes, from %s\n", ch.Channel, len(content), t.File)
	if n := notifier.Segments(ch.Channel, content); n > 0 {
		fmt.Fprintf(w, "  segments: %d\n", n)
	}
	if collapse != "" {
		fmt.Fprintf(w, "  collapse id: %s\n", printable(collapse))
	}
	shown := jsontext.Value(slices.Clone(content))
	if err := shown.Format(jsontext.Multiline(true), jsontext.WithIndentPrefix("  "), jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("show the content of %s: %w", ch.Channel, err)
	}
	fmt.Fprintf(w, "  %s\n", shown)
	return nil
}

// withAdvice is an error in one line, with what to do about it.
func withAdvice(err error) string {
	var e *notifier.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if advice := adviceFor(e.Code, e.Field); advice != "" {
		return e.Error() + "; " + advice
	}
	return e.Error()
}

// printable keeps what came from elsewhere from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, s)
}
