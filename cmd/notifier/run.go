package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// process is what a command has of the world around it.
type process struct {
	getenv         func(string) string
	stdout, stderr io.Writer
}

// command is one word after notifier.
type command struct {
	name string
	// args are what the usage line shows after the name.
	args  string
	about string
	run   func(c command, ctx context.Context, p *process, args []string) error
}

// commands is every command that is built, in the order of the usage.
func commands() []command {
	return []command{
		{"demo", "[-once] [-scene NAME]", "plays repeats, lost replies and crashes with nothing else installed", (command).demo},
		{"init", "[-simulated] DIR", "makes a configuration, and one policy with templates per order", (command).initialise},
		{"check", "[-config FILE] [-policies DIR] [-templates DIR] [-strict] [-v]", "finds every mistake in configuration, policies and templates", (command).check},
		{"render", "TYPE [-data name=value] [-data @file] [-locale L]", "shows what a type's templates give", (command).render},
		{"serve", "[-config FILE] [-migrate] [-restored]", "runs the service", (command).serve},
		{"migrate", "[-config FILE]", "brings the schema of a Postgres ledger up to this version", (command).migrate},
		{"simulate", "-dir DIR [-faults FILE]", "runs simulated providers", (command).simulate},
		{"send", "-type T -recipient R -key K -to channel=address… [-data name=value…] [-wait 10s]", "sends through a server", (command).send},
		{"status", "ID | -key K [-json]", "shows a notification with its timeline", (command).status},
		{"pause", "[-type T] [-channel C] [-account A] [-tenant T] [-until TIME] [-why TEXT] [-json]", "starts no new attempts of what it names, on any node, until it is resumed", (command).pause},
		{"resume", "ID [-why TEXT] [-json]", "ends a pause: what waited for it is sent", (command).resume},
		{"pauses", "[-ended] [-json]", "lists the pauses in force, or those that have ended", (command).pauses},
		{"bench", "[-server URL -type T] [-inflight N] [-duration D] [-rate N] [-order O] [-pending N] [-soak D] [-json]", "measures a server beside a bare chain, and checks the providers' log", (command).bench},
		{"version", "", "prints version, commit and Go", (command).version},
	}
}

// later is every command that is not built yet: refused by name, so that a
// script learns the difference between a slip and a feature to wait for.
var later = [...]string{"list", "policy", "caps", "cancel", "resolve", "redrive", "forget", "reconcile", "relay", "keys"}

// errHelp says that help was asked for and given.
var errHelp = errors.New("help")

// usageError is a command used in a wrong way: exit code 2.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func wrongUsage(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// notSo says that what a command checks does not hold: exit code 3.
type notSo struct{ message string }

func (e *notSo) Error() string { return e.message }

// exitCode is the exit code of a run that ended with err.
func exitCode(err error) int {
	var wrong *usageError
	var not *notSo
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return 2
	case errors.As(err, &not):
		return 3
	default:
		return 1
	}
}

// oneLine is what is printed of an error: causes that came as several lines
// stand beside each other.
func oneLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// run does what args say. Its error is one line that says what to do next.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	p := &process{getenv: getenv, stdout: stdout, stderr: stderr}
	if len(args) == 0 {
		return wrongUsage("which command? %s", known())
	}
	name := args[0]
	if name == "-h" || name == "--help" || name == "-help" || name == "help" {
		usage(stdout)
		return nil
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		if err := c.run(c, ctx, p, args[1:]); !errors.Is(err, errHelp) {
			return err
		}
		return nil
	}
	if slices.Contains(later[:], name) {
		return wrongUsage("%s is not supported yet; %s", name, known())
	}
	return wrongUsage("unknown command %q; %s", name, known())
}

func known() string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return "commands: " + strings.Join(names, ", ") + `; "notifier -h" says more`
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: notifier COMMAND [flags]; \"notifier COMMAND -h\" lists a command's flags")
	fmt.Fprintln(w)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.about)
	}
}

// flags returns an empty set of flags for the command. It prints nothing by
// itself: parse does.
func (c command) flags() *flag.FlagSet {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// parse reads flags and arguments in any order and wants exactly the arguments
// that are named; one in brackets may be left out.
func (c command) parse(p *process, f *flag.FlagSet, args []string, names ...string) ([]string, error) {
	var got []string
	for {
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(p.stdout, "usage: notifier %s %s\n\n%s %s.\n", c.name, c.args, c.name, c.about)
			f.SetOutput(p.stdout)
			fmt.Fprintln(p.stdout)
			f.PrintDefaults()
			return nil, errHelp
		}
		if err != nil {
			return nil, wrongUsage(`%s: %v; "notifier %s -h" lists the flags`, c.name, err, c.name)
		}
		if f.NArg() == 0 {
			break
		}
		got, args = append(got, f.Arg(0)), f.Args()[1:]
	}
	switch {
	case len(got) < len(names) && !strings.HasPrefix(names[len(got)], "["):
		return nil, wrongUsage("%s needs %s: notifier %s %s", c.name, names[len(got)], c.name, c.args)
	case len(got) > len(names):
		return nil, wrongUsage("%s: %q is one argument too many: notifier %s %s", c.name, got[len(names)], c.name, c.args)
	}
	return got, nil
}

// wasSet reports whether a flag was given.
func wasSet(f *flag.FlagSet, name string) (set bool) {
	f.Visit(func(g *flag.Flag) { set = set || g.Name == name })
	return set
}
