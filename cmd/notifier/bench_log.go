package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// effectLog reads on in a simulator's log.
type effectLog struct {
	path   string
	offset int64
}

// effect is what is read of one line.
type effect struct {
	Time       time.Time `json:"time"`
	Address    string    `json:"address"`
	TookEffect bool      `json:"took_effect"`
}

// skip goes to the log's end.
func (l *effectLog) skip() error {
	info, err := os.Stat(l.path)
	if err != nil {
		return fmt.Errorf("look at the provider log: %w", err)
	}
	l.offset = info.Size()
	return nil
}

// read hands every whole line since the last time to use.
func (l *effectLog) read(use func(effect)) error {
	f, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("open the provider log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the provider log: %w", err)
	}
	for r := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil // a line without its end is being written
		}
		if err != nil {
			return fmt.Errorf("read the provider log: %w", err)
		}
		var e effect
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read the provider log at byte %d: %w", l.offset, err)
		}
		l.offset += int64(len(line))
		use(e)
	}
}

// readLog books the effects that the provider has logged since the last time.
func (b *benchRun) readLog() error {
	if b.log == nil {
		return nil
	}
	b.load.mu.Lock()
	defer b.load.mu.Unlock()
	return b.log.read(b.load.book)
}

// book takes in one effect.
func (l *loader) book(e effect) {
	n := l.number(e.Address)
	if n < 0 || !e.TookEffect {
		return
	}
	s := &l.shots[n]
	s.effects++
	if s.wire == 0 {
		s.wire = e.Time.UnixNano()
	}
}

// check holds what was sent against what took effect.
func (b *benchRun) check(context.Context) error {
	if err := b.readLog(); err != nil {
		return err
	}
	b.report.Check = tally(b.load.shots)
	b.report.Check.Compared = b.log != nil
	return nil
}

func tally(shots []shot) benchCheck {
	var c benchCheck
	for _, s := range shots {
		if s.accepted {
			c.Accepted++
		}
		c.Effects += int(s.effects)
		switch {
		case s.effects > 1:
			c.Repeated++
		case s.effects == 0 && s.accepted:
			c.Lost++
		}
	}
	return c
}

// verdict is an error when a notification did not have exactly one effect.
func (c *benchCheck) verdict() error {
	if !c.Compared || c.Lost == 0 && c.Repeated == 0 {
		return nil
	}
	return &notSo{fmt.Sprintf("bench: of %d notifications that were accepted the provider's log has %d without an effect, and %d with more than one",
		c.Accepted, c.Lost, c.Repeated)}
}
