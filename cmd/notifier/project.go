package main

import (
	"flag"
	"fmt"
	"path/filepath"

	"github.com/seed-4b260dfd/notifier/policy"
	"github.com/seed-4b260dfd/notifier/strictyaml"
	"github.com/seed-4b260dfd/notifier/templates"
)

// project is what an installation says: configuration, policies and templates.
type project struct {
	*config
	policies  *policy.Set
	templates *templates.Set
	// problems is everything that is wrong, warnings included.
	problems []strictyaml.Problem
}

// projectFlags are the flags of the commands that read a project.
type projectFlags struct {
	set                         *flag.FlagSet
	config, policies, templates string
}

// define adds -config, and with folders -policies and -templates.
func (p *projectFlags) define(f *flag.FlagSet, folders bool) {
	p.set = f
	f.StringVar(&p.config, "config", configName, "the configuration `FILE`")
	if folders {
		f.StringVar(&p.policies, "policies", "", "the policies' `DIR` (default: the configuration's)")
		f.StringVar(&p.templates, "templates", "", "the templates' `DIR` (default: the configuration's)")
	}
}

// load reads all and checks each part by itself and the parts against each
// other. Problems are in the project; an error says that nothing could be read.
func (p *projectFlags) load(getenv func(string) string) (*project, error) {
	cfg, problems, err := loadConfig(p.config, wasSet(p.set, "config"), getenv)
	if err != nil {
		return nil, err
	}
	pr := &project{config: cfg, problems: problems}
	if p.policies != "" {
		cfg.Policies = p.policies
	}
	if p.templates != "" {
		cfg.Templates = p.templates
	}
	var more []strictyaml.Problem
	pr.policies, more = policy.Load(disk{}, filepath.ToSlash(cfg.Policies))
	pr.problems = append(pr.problems, more...)
	pr.templates, more = templates.Load(disk{}, filepath.ToSlash(cfg.Templates))
	pr.problems = append(pr.problems, more...)
	// Folders that are looked at by themselves are not held to accounts.
	alone := cfg.file == "" && (p.policies != "" || p.templates != "")
	pr.problems = strictyaml.Sort(append(pr.problems, pr.crossCheck(!alone)...))
	return pr, nil
}

// errors counts the problems that are not warnings.
func (p *project) errors() int {
	n := 0
	for _, problem := range p.problems {
		if !problem.Warning {
			n++
		}
	}
	return n
}

// noPolicy says what to do in a folder without policies.
func (p *project) noPolicy() string {
	return fmt.Sprintf(`no policy in %s/: run "notifier init %s"`, filepath.ToSlash(p.Policies), filepath.ToSlash(filepath.Dir(p.Policies)))
}

// configFlag is what a command that is advised must be given as well.
func (p *project) configFlag() string {
	if p.file == "" || p.file == configName {
		return ""
	}
	return " -config " + p.file
}

// unusable returns the one line of a command that cannot go on: the first
// problem, and where to read the others. Nil: there is none.
func (p *project) unusable() error {
	n := p.errors()
	for _, problem := range p.problems {
		switch {
		case problem.Warning:
		case n == 1:
			return fmt.Errorf("%s", problem)
		default:
			return fmt.Errorf(`%s (and %d more: run "notifier check%s")`, problem, n-1, p.configFlag())
		}
	}
	if len(p.policies.Types()) == 0 {
		return fmt.Errorf("%s", p.noPolicy())
	}
	return nil
}
