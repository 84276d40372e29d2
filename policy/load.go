package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// defaultsFile holds what every policy of the folder has unless it says otherwise.
const defaultsFile = "_defaults.yaml"

// typeName is what a message type may be called: it is a file's name, a
// metric's label and a template's folder.
var typeName = regexp.MustCompile(`^[a-z0-9][a-z0-9_]{0,63}$`)

// Set is the policies of one folder.
type Set struct{ byType map[string]*Policy }

// Policy returns a type's policy, or nil.
func (s *Set) Policy(typ string) *Policy { return s.byType[typ] }

// Types returns the message types, sorted.
func (s *Set) Types() []string { return slices.Sorted(maps.Keys(s.byType)) }

// Load reads every policy of a folder and returns every problem in it at once.
// The set has what could be read, problems or not; a folder that is empty or
// not there gives an empty set.
func Load(fsys fs.FS, dir string) (*Set, []strictyaml.Problem) {
	set := &Set{byType: map[string]*Policy{}}
	entries, err := fs.ReadDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return set, nil
	}
	if err != nil {
		return set, []strictyaml.Problem{{File: dir, Line: 1, Message: fmt.Sprintf("cannot be read: %v", err)}}
	}
	l := &loader{fsys: fsys, dir: dir}
	defaults := l.defaults(entries)
	for _, e := range entries {
		if typ, ok := l.typeOf(e); ok {
			if p := l.policy(typ, defaults); p != nil {
				set.byType[typ] = p
			}
		}
	}
	l.problems = append(l.problems, set.checkShared()...)
	return set, strictyaml.Sort(l.problems)
}

type loader struct {
	fsys     fs.FS
	dir      string
	problems []strictyaml.Problem
}

func (l *loader) add(file, format string, args ...any) {
	l.problems = append(l.problems, strictyaml.Problem{File: file, Line: 1, Message: fmt.Sprintf(format, args...)})
}

// typeOf returns the message type that an entry of the folder is the policy of.
// What looks like a policy and would be passed over is a problem.
func (l *loader) typeOf(e fs.DirEntry) (string, bool) {
	file := path.Join(l.dir, e.Name())
	typ, isYAML := strings.CutSuffix(e.Name(), ".yaml")
	switch {
	case strings.HasPrefix(e.Name(), ".") || e.Name() == defaultsFile:
	case e.IsDir():
		l.add(file, "policies are not read from subfolders; put each as <type>.yaml into %s", l.dir)
	case strings.HasSuffix(e.Name(), ".yml"):
		l.add(file, "a policy's file ends in .yaml; rename it")
	case !isYAML:
	case !typeName.MatchString(typ):
		l.add(file, "%q is not a name for a message type; allowed: a-z, 0-9 and _, at most 64, not _ first", typ)
	default:
		return typ, true
	}
	return "", false
}

// source is a file with the name that its problems carry.
type source struct {
	name string
	text []byte
}

func (l *loader) read(name string) (source, bool) {
	file := path.Join(l.dir, name)
	text, err := fs.ReadFile(l.fsys, file)
	if err != nil {
		l.add(file, "cannot be read: %v", err)
		return source{name: file}, false
	}
	return source{file, text}, true
}

func (l *loader) defaults(entries []fs.DirEntry) source {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == defaultsFile }) {
		return source{name: path.Join(l.dir, defaultsFile)}
	}
	src, _ := l.read(defaultsFile)
	doc, problems := strictyaml.Decode(src.name, src.text, &file{})
	l.problems = append(l.problems, problems...)
	for _, field := range []string{"order", "description", "channels", "data"} {
		if doc.Has(field) {
			l.problems = append(l.problems, doc.Problem([]any{field}, "%s may not be a default; each policy says it itself", field))
		}
	}
	return src
}

// policy reads one type's file over the defaults.
func (l *loader) policy(typ string, defaults source) *Policy {
	src, ok := l.read(typ + ".yaml")
	if !ok {
		return nil
	}
	f := builtIn()
	p := &Policy{Type: typ, File: src.name}
	// The problems of the defaults are reported once, not once per policy.
	p.defaults, _ = strictyaml.Decode(defaults.name, defaults.text, &f)
	f.Order, f.Description, f.Channels, f.Data = "", "", nil, nil
	var problems []strictyaml.Problem
	p.own, problems = strictyaml.Decode(src.name, src.text, &f)
	l.problems = append(l.problems, problems...)
	if p.own.Empty() && len(problems) > 0 {
		return nil // not YAML: there is nothing to say of its fields
	}
	p.resolve(&f)
	p.Version = p.version()
	l.problems = append(l.problems, p.check(&f, problems)...)
	return p
}
