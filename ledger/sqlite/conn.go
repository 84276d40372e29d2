package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"
)

// conn is one connection with its statements prepared once. It talks to the
// driver without database/sql between: the writer has a connection of its own
// and runs a dozen short statements per delivery.
type conn struct {
	c     driver.Conn
	stmts map[string]stmt
	args  []driver.NamedValue
	// changed says that a statement has changed a row since it was last reset.
	changed bool
}

type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func (c *conn) prepare(query string) (stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	p, err := c.c.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("prepare %.60q: %w", query, err)
	}
	s, ok := p.(stmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("prepare %.60q: the driver's statement takes no named values", query), p.Close())
	}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// exec runs a statement and returns how many rows it changed. Arguments are
// int64, string, bool, []byte or nil.
func (c *conn) exec(query string, args ...any) (int64, error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.Background(), c.bind(args))
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	c.changed = c.changed || n > 0
	return n, err
}

// rows runs a query and calls each for every row. The row is valid until each
// returns; each must not run statements.
func (c *conn) rows(query string, each func(row) error, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rs, err := s.QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return err
	}
	r := make(row, len(rs.Columns()))
	for {
		err := rs.Next(r)
		if err == nil {
			err = each(r)
		}
		switch {
		case errors.Is(err, io.EOF):
			return rs.Close()
		case err != nil:
			return errors.Join(err, rs.Close())
		}
	}
}

// first returns the only row of a query, or nil when there is none.
func (c *conn) first(query string, args ...any) (row, error) {
	var got row
	err := c.rows(query, func(r row) error {
		got = append(got, r...)
		return nil
	}, args...)
	return got, err
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// row is one row of an answer. The accessors give the zero value for NULL.
type row []driver.Value

func (r row) int(i int) int64 {
	v, _ := r[i].(int64)
	return v
}

func (r row) str(i int) string {
	v, _ := r[i].(string)
	return v
}

func (r row) bytes(i int) []byte {
	v, _ := r[i].([]byte)
	return v
}

func (r row) time(i int) time.Time { return fromMicros(r.int(i)) }
