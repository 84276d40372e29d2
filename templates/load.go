package templates

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-4b260dfd/notifier/strictyaml"
)

var (
	// folderName is what a folder of templates may be called.
	folderName = regexp.MustCompile(`^[a-z0-9][a-z0-9_]{0,63}$`)
	// localeName is a language tag as far as it names folders (RFC 5646 section 2.1).
	localeName = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
)

// Load reads every template of a folder and returns every problem in it at
// once. The set has what could be read; a folder that is empty or not there
// gives an empty set.
func Load(fsys fs.FS, dir string) (*Set, []strictyaml.Problem) {
	l := &loader{fsys: fsys, set: &Set{byName: map[string]map[string]map[Kind]*Template{}}}
	for _, e := range l.entries(dir) {
		file := path.Join(dir, e.Name())
		switch {
		case !e.IsDir() && isYAML(e.Name()):
			l.add(file, "a template stands in its type's folder: %s", path.Join(dir, "<type>", "<channel>.yaml"))
		case !e.IsDir():
		case !folderName.MatchString(e.Name()):
			l.add(file, "%q is not a name for templates; allowed: a-z, 0-9 and _, at most 64, not _ first", e.Name())
		default:
			l.folder(file, e.Name(), "")
		}
	}
	return l.set, strictyaml.Sort(l.problems)
}

type loader struct {
	fsys     fs.FS
	set      *Set
	problems []strictyaml.Problem
}

func (l *loader) add(file, format string, args ...any) {
	l.problems = append(l.problems, strictyaml.Problem{File: file, Line: 1, Message: fmt.Sprintf(format, args...)})
}

// entries lists a folder without what is hidden: editors and version control
// keep their things there.
func (l *loader) entries(dir string) []fs.DirEntry {
	entries, err := fs.ReadDir(l.fsys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.add(dir, "cannot be read: %v", err)
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// folder reads the files of one name and one language.
func (l *loader) folder(dir, name, locale string) {
	kinds := map[Kind]*Template{}
	for _, e := range l.entries(dir) {
		file := path.Join(dir, e.Name())
		if e.IsDir() {
			l.locale(file, name, locale, e.Name())
			continue
		}
		kind, ok := strings.CutSuffix(e.Name(), ".yaml")
		if !ok {
			if isYAML(e.Name()) {
				l.add(file, "a template's file ends in .yaml; rename it")
			}
			continue
		}
		s, known := shapeOf(Kind(kind))
		if !known {
			l.add(file, "%q is not a channel; allowed: push, apns, fcm, webpush, email, sms, webhook", kind)
			continue
		}
		if t := l.file(&Template{Name: name, Locale: locale, Kind: Kind(kind), File: file, shape: s}); t != nil {
			kinds[t.Kind] = t
		}
	}
	if len(kinds) > 0 {
		if l.set.byName[name] == nil {
			l.set.byName[name] = map[string]map[Kind]*Template{}
		}
		l.set.byName[name][foldLocale(locale)] = kinds
	}
}

func (l *loader) locale(dir, name, within, locale string) {
	switch {
	case within != "":
		l.add(dir, "folders stand one deep: <type>/<locale>/<channel>.yaml")
	case !localeName.MatchString(locale):
		l.add(dir, "%q is not a locale; allowed: a language with or without a region, such as fr or fr-CA", locale)
	case l.set.byName[name][foldLocale(locale)] != nil:
		l.add(dir, "the locale %q is there twice", locale)
	default:
		l.folder(dir, name, locale)
	}
}

// file reads one template; nil when it is not even YAML.
func (l *loader) file(t *Template) *Template {
	src, err := fs.ReadFile(l.fsys, t.File)
	if err != nil {
		l.add(t.File, "cannot be read: %v", err)
		return nil
	}
	into := t.shape.into()
	doc, problems := strictyaml.Decode(t.File, src, into)
	if doc.Empty() && len(problems) > 0 {
		l.problems = append(l.problems, problems...)
		return nil
	}
	p := &parser{doc: doc, problems: problems}
	held := values(into)
	for _, rule := range t.shape.fields {
		v, written := held[rule.name]
		if !written {
			continue
		}
		if n, ok := p.field(rule, v); ok {
			t.fields = append(t.fields, field{rule, n})
		}
	}
	for _, group := range t.shape.needs {
		if !slices.ContainsFunc(group, func(f string) bool { return doc.Has(f) }) {
			p.problems = append(p.problems, doc.Problem(nil, "%s is required", oneOf(group)))
		}
	}
	l.problems = append(l.problems, p.problems...)
	t.uses = p.uses
	slices.SortStableFunc(t.uses, func(a, b Use) int { return a.Line - b.Line })
	return t
}
