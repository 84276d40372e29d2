package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-4b260dfd/notifier"
)

// pause places a pause through a server.
func (c command) pause(ctx context.Context, p *process, args []string) error {
	f := c.flags()
	server := serverFlag(f)
	body := map[string]string{}
	selectors := []string{"type", "channel", "account", "tenant"}
	for name, usage := range map[string]string{
		"type": "the message `type`", "channel": "the `channel`, such as email", "account": "the `account` of a channel", "tenant": "the `tenant`",
		"why": "the reason, for whoever finds the pause: `text`",
	} {
		f.Func(name, usage, func(s string) error {
			if s == "" {
				return errors.New("is empty: leave it out, which matches everything")
			}
			body[name] = s
			return nil
		})
	}
	until := f.String("until", "", "when it ends by itself: a `time` as in 2026-12-01T09:00:00Z, or from now, as in 2h")
	fanout := f.String("fanout", "", "the `id` of a fan-out (not supported yet)")
	asJSON := f.Bool("json", false, "print the pause as JSON")
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	if *fanout != "" {
		return wrongUsage("pause: -fanout is not supported yet; leave it out")
	}
	selects := false
	for _, name := range selectors {
		selects = selects || body[name] != ""
	}
	if !selects {
		return wrongUsage("pause what? add one or more of -type, -channel, -account, -tenant")
	}
	if *until != "" {
		end, err := parseUntil(*until, time.Now())
		if err != nil {
			return err
		}
		body["until"] = end
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	unclear := "it may have been placed: pause again, which places it once"
	return c.callPauses(ctx, p, *server, unclear, *asJSON, http.MethodPost, "/v1/pauses", text)
}

// parseUntil reads a time, or a duration from now.
func parseUntil(s string, now time.Time) (string, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d <= 0 {
			return "", wrongUsage("pause: -until %s does not lie ahead", s)
		}
		return now.Add(d).UTC().Format(time.RFC3339Nano), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "", wrongUsage("pause: -until %q is neither a time such as 2026-12-01T09:00:00Z nor a duration such as 2h", s)
	}
	if !t.After(now) {
		return "", wrongUsage("pause: -until %s does not lie ahead", s)
	}
	return s, nil
}

// resume ends a pause through a server.
func (c command) resume(ctx context.Context, p *process, args []string) error {
	f := c.flags()
	server := serverFlag(f)
	why := f.String("why", "", "the reason, which is kept with the pause: `text`")
	asJSON := f.Bool("json", false, "print the pause as JSON")
	got, err := c.parse(p, f, args, "ID")
	if err != nil {
		return err
	}
	id := got[0]
	if !strings.HasPrefix(id, notifier.PausePrefix) || strings.ContainsAny(id, "/?#%") {
		return wrongUsage(`resume: %q is not an id such as %s…; "notifier pauses" lists them`, id, notifier.PausePrefix)
	}
	path := "/v1/pauses/" + id
	if *why != "" {
		path += "?why=" + url.QueryEscape(*why)
	}
	unclear := "it may have been resumed: resume it again, which does no harm"
	return c.callPauses(ctx, p, *server, unclear, *asJSON, http.MethodDelete, path, nil)
}

// callPauses makes a request that is answered with one pause, and prints it.
func (c command) callPauses(ctx context.Context, p *process, server, unclear string, asJSON bool, method, path string, body []byte) error {
	cl, err := newClient(server, p.getenv)
	if err != nil {
		return err
	}
	cl.unclear = unclear
	header := http.Header{}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	a, err := cl.call(ctx, method, path, header, body, 0)
	if err != nil {
		return err
	}
	var one notifier.Pause
	if err := json.Unmarshal(a.body, &one); err != nil || one.ID == "" {
		return errors.New("the server's answer is not a pause: is it a notifier of this version?")
	}
	switch {
	case asJSON:
		fmt.Fprintf(p.stdout, "%s\n", a.body)
	case method == http.MethodDelete:
		fmt.Fprint(p.stdout, "resumed  ")
		printPause(p.stdout, &one)
	default:
		printPause(p.stdout, &one)
	}
	return nil
}

// pauses lists the pauses in force, or those that have ended.
func (c command) pauses(ctx context.Context, p *process, args []string) error {
	f := c.flags()
	server := serverFlag(f)
	asJSON := f.Bool("json", false, "print them as JSON")
	ended := f.Bool("ended", false, "those that ended within the last thirty days, with who resumed them and why")
	if _, err := c.parse(p, f, args); err != nil {
		return err
	}
	cl, err := newClient(*server, p.getenv)
	if err != nil {
		return err
	}
	path, none := "/v1/pauses", "no pause is in force"
	if *ended {
		path, none = path+"?ended=true", "no pause has ended within the last thirty days"
	}
	a, err := cl.call(ctx, http.MethodGet, path, nil, nil, 0)
	if err != nil {
		return err
	}
	if *asJSON {
		fmt.Fprintf(p.stdout, "%s\n", a.body)
		return nil
	}
	var list struct {
		Pauses []notifier.Pause `json:"pauses"`
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		return errors.New("the server's answer is not a list: is it a notifier of this version?")
	}
	if len(list.Pauses) == 0 {
		fmt.Fprintln(p.stdout, none)
	}
	for i := range list.Pauses {
		printPause(p.stdout, &list.Pauses[i])
	}
	return nil
}

// printPause writes a pause for people, on one line.
func printPause(w io.Writer, one *notifier.Pause) {
	fmt.Fprint(w, printable(one.ID))
	for _, s := range []struct{ name, value string }{
		{"type", one.Type}, {"channel", string(one.Channel)}, {"account", one.Account}, {"tenant", one.Tenant}, {"order", string(one.Order)},
	} {
		if s.value != "" {
			fmt.Fprintf(w, "  %s %s", s.name, printable(s.value))
		}
	}
	fmt.Fprintf(w, "  since %s", moment(&one.Since))
	if !one.Until.IsZero() {
		fmt.Fprintf(w, "  until %s", moment(&one.Until))
	}
	fmt.Fprintf(w, "  %s", printable(string(one.Cause)))
	if one.By != "" {
		fmt.Fprintf(w, ", by %s", printable(one.By))
	}
	if one.Why != "" {
		fmt.Fprintf(w, ": %s", printable(one.Why))
	}
	if !one.EndedAt.IsZero() {
		fmt.Fprintf(w, "; ended %s", moment(&one.EndedAt))
	}
	if one.EndedBy != "" {
		fmt.Fprintf(w, ", by %s", printable(one.EndedBy))
	}
	if one.EndedWhy != "" {
		fmt.Fprintf(w, ": %s", printable(one.EndedWhy))
	}
	fmt.Fprintln(w)
}
