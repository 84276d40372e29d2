package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/seed-4b260dfd/notifier/strictyaml"
)

// maxValueFile is the longest file that a "file:" string may name.
const maxValueFile = 64 << 10

// variable is ${NAME} anywhere in a string.
var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// variableName is what an environment variable may be called.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expander puts values in the place of ${NAME} and file:PATH, wherever a
// string of the configuration stands, and makes paths relative to its file.
type expander struct {
	doc    *strictyaml.Document
	dir    string
	getenv func(string) string

	problems []strictyaml.Problem
	// secrets are the values that came from elsewhere. Whoever keeps a value
	// out of the file does not want to read it in a message either.
	secrets []string
}

func (e *expander) bad(path []any, format string, args ...any) {
	e.problems = append(e.problems, e.doc.Problem(path, "%s: %s", strictyaml.Path(path...), fmt.Sprintf(format, args...)))
}

// walk expands every string under v, which is settable.
func (e *expander) walk(v reflect.Value, path []any) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(e.text(v.String(), path))
	case reflect.Struct:
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if options == "inline" {
				e.walk(v.Field(i), path)
				continue
			}
			e.walk(v.Field(i), join(path, name))
			if f := v.Field(i); f.Kind() == reflect.String && strings.HasSuffix(name, "_file") {
				f.SetString(e.path(f.String()))
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			made := reflect.New(v.Type().Elem()).Elem()
			made.Set(v.MapIndex(k))
			e.walk(made, join(path, k.String()))
			v.SetMapIndex(k, made)
		}
	case reflect.Slice:
		for i := range v.Len() {
			e.walk(v.Index(i), join(path, i))
		}
	default: // numbers and booleans hold no reference; what is refused is not looked into
	}
}

func join(path []any, step any) []any {
	return append(path[:len(path):len(path)], step)
}

func (e *expander) text(s string, path []any) string {
	isFile := strings.HasPrefix(s, "file:")
	s = variable.ReplaceAllStringFunc(s, func(ref string) string {
		name := ref[2 : len(ref)-1]
		if !variableName.MatchString(name) {
			e.bad(path, "%s does not name an environment variable; write ${NAME}", ref)
			return ""
		}
		value := e.getenv(name)
		if value == "" {
			e.bad(path, "the environment variable %s is not set", name)
		}
		e.keep(value)
		return value
	})
	if !isFile {
		return s
	}
	return e.file(strings.TrimPrefix(s, "file:"), path)
}

// file returns what a file holds, without the line break at its end.
func (e *expander) file(name string, path []any) string {
	name = e.path(strings.TrimPrefix(name, "//"))
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.bad(path, "the file %s does not exist", name)
	case err != nil:
		e.bad(path, "the file %s cannot be read: %v", name, errors.Unwrap(err))
	case len(b) > maxValueFile:
		e.bad(path, "the file %s has %d bytes; at most %d are read", name, len(b), maxValueFile)
		return ""
	}
	value := strings.TrimRight(string(b), "\r\n")
	if err == nil && value == "" {
		e.bad(path, "the file %s is empty", name)
	}
	e.keep(value)
	return value
}

// keep remembers a value that messages must not show. Very short ones would
// blot out half of a message and are no secrets.
func (e *expander) keep(value string) {
	if len(value) >= 4 {
		e.secrets = append(e.secrets, value)
	}
}

// path makes a path relative to the configuration's folder.
func (e *expander) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(e.dir, name)
}

// redact takes the values that came from elsewhere out of a message.
func redact(secrets []string, message string) string {
	for _, s := range secrets {
		message = strings.ReplaceAll(message, s, "…")
	}
	return message
}
