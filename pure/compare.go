package pure

import (
	"cmp"
	"errors"
	"reflect"
)

// equal reports whether a is equal to any of the others. Numbers are equal by
// value, whatever their form; values of different kinds are not equal.
func equal(a, b any, more ...any) bool {
	for _, x := range append([]any{b}, more...) {
		if c, ok := compareNumbers(a, x); ok && c == 0 || reflect.DeepEqual(a, x) {
			return true
		}
	}
	return false
}

func ordered(a, b any, want func(int) bool) (bool, error) {
	if c, ok := compareNumbers(a, b); ok {
		return want(c), nil
	}
	s, isString := a.(string)
	t, alsoString := b.(string)
	if !isString || !alsoString {
		return false, errors.New("only two numbers or two strings have an order")
	}
	return want(cmp.Compare(s, t)), nil
}

func compareNumbers(a, b any) (int, bool) {
	i, isInt := whole(a)
	j, alsoInt := whole(b)
	if isInt && alsoInt {
		return cmp.Compare(i, j), true
	}
	f, isNumber := float(a)
	g, alsoNumber := float(b)
	return cmp.Compare(f, g), isNumber && alsoNumber
}

func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	default:
		return 0, false
	}
}

func float(v any) (float64, bool) {
	if i, ok := whole(v); ok {
		return float64(i), true
	}
	f, ok := v.(float64)
	return f, ok
}
