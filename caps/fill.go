package caps

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Spent is a record of a unit that was spent, for FillAll.
type Spent struct {
	Cap          Cap
	Unit, Holder string
	At           time.Time
}

// FillAll is Fill for many records, in any order. After an error some of them
// are filled; the same records again do no harm.
func (m *Memory) FillAll(ctx context.Context, records []Spent) error {
	for _, s := range records {
		if err := m.Fill(ctx, s.Cap, s.Unit, s.Holder, s.At); err != nil {
			return err
		}
	}
	return nil
}

const (
	// fillers is how many scripts of one FillAll wait for their replies at a
	// time. They share pipelines, and leave room between these for others.
	fillers = 256
	// fillsPerCall bounds for how long one script keeps Redis from others.
	fillsPerCall = 64
)

// FillAll is Fill for many records, in any order, with as few round trips as it
// takes; a thousand and more in one call are worth its while. It may go on while others spend.
// After an error some of the records are filled; the same again do no harm.
func (r *Redis) FillAll(ctx context.Context, records []Spent) error {
	calls, err := r.fills(records)
	if err := begin(ctx, err); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan *fillCall)
	var all sync.WaitGroup
	for range min(fillers, len(calls)) {
		all.Go(func() {
			for c := range next {
				if _, err := r.run.Run(ctx, fillScript, []string{c.key}, c.args...); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, c := range calls {
		if ctx.Err() != nil {
			break
		}
		next <- c
	}
	close(next)
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

// fillCall is one call of the script: records of one scope.
type fillCall struct {
	key  string
	args []any
}

// fills makes records into calls, a scope's records into as few as may be.
func (r *Redis) fills(records []Spent) ([]*fillCall, error) {
	var calls []*fillCall
	open := make(map[string]*fillCall, len(records))
	for i := range records {
		s := &records[i]
		on := []Cap{s.Cap}
		if err := check(s.Unit, s.Holder, on); err != nil {
			return nil, err
		}
		key := r.keys(on)[0]
		c := open[key]
		if c == nil || len(c.args) == 4*fillsPerCall {
			c = &fillCall{key: key}
			open[key] = c
			calls = append(calls, c)
		}
		u, share := members(s.Unit, s.Holder)
		c.args = append(c.args, u, share, micros(s.Cap.Window), s.At.UnixMicro())
	}
	return calls, nil
}
