package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// storyWidth is the longest line that is printed.
const storyWidth = 100

// story prints what happens as it happens.
type story struct {
	w     io.Writer
	began time.Time
	// err is the first failure to print: nobody is reading.
	err error
}

// text prints lines as they are.
func (s *story) text(format string, args ...any) {
	if _, err := fmt.Fprintf(s.w, format+"\n", args...); err != nil && s.err == nil {
		s.err = err
	}
}

// heading begins a scene.
func (s *story) heading(format string, args ...any) {
	s.text("\n"+format, args...)
}

// moral ends a scene: what it shows, or where it came out otherwise.
func (s *story) moral(text string, astray []string) {
	if len(astray) == 0 {
		s.text("%20s→ %s", "", text)
	}
	for _, a := range some(astray) {
		s.text("%20sNOT AS TOLD: %s", "", a)
	}
}

// some is the beginning of a list that may be long.
func some(list []string) []string {
	const most = 3
	if len(list) <= most+1 {
		return list
	}
	return append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
}

// Who says a line.
const (
	byClient   = "client"
	byProvider = "provider"
	byServer   = "server"
	byLedger   = "ledger"
	byDevice   = "device"
)

// say prints a line of what happened now.
func (s *story) say(who, format string, args ...any) {
	s.sayAt(time.Now(), who, format, args...)
}

// sayAt prints a line of what happened at t. What is too long goes on below.
func (s *story) sayAt(t time.Time, who, format string, args ...any) {
	head := fmt.Sprintf("%7.2fs  %-8s  ", max(0, t.Sub(s.began).Seconds()), who)
	for i, line := range wrap(fmt.Sprintf(format, args...), storyWidth-len(head)) {
		if i > 0 {
			head = strings.Repeat(" ", len(head))
		}
		s.text("%s%s", head, line)
	}
}

// wrap cuts a text at its spaces into lines of a width. What follows the first
// is set in.
func wrap(text string, width int) []string {
	var lines []string
	for indent := ""; ; indent = "  " {
		text = indent + text
		if len([]rune(text)) <= width {
			return append(lines, text)
		}
		cut := strings.LastIndex(string([]rune(text)[:width+1]), " ")
		if cut <= len(indent) {
			return append(lines, text) // one long word
		}
		lines = append(lines, strings.TrimRight(text[:cut], " "))
		text = strings.TrimLeft(text[cut:], " ")
	}
}

// clip shortens an id that need only be recognised.
func clip(id string) string {
	const keep = 12
	if len(id) <= keep {
		return id
	}
	return id[:keep] + "…"
}
