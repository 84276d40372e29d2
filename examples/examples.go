// Package examples holds policies and templates to learn from and to begin
// with: the command init copies some of them, and the demo runs them all.
package examples

import (
	"embed"
	"io/fs"
)

// Policies and Templates are the folders within Files.
const (
	Policies  = "policies"
	Templates = "templates"
)

//go:embed all:policies all:templates
var files embed.FS

// Files is the examples as they stand in the repository.
func Files() fs.FS { return files }
