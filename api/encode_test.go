package api

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-4b260dfd/notifier"
)

// fillAny gives every field of a value something that says which it is, or
// nothing: a field that one of the two forgets shows.
func fillAny(v reflect.Value, r *rand.Rand) {
	texts := [...]string{"", "ann", "a \"quote\" & <b>\u2028", "tab\tnul\x00", "é漢🎉", "\xff broken"}
	if v.CanAddr() {
		switch p := v.Addr().Interface().(type) {
		case *time.Time:
			if r.IntN(3) > 0 {
				*p = time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()
			}
			return
		case *notifier.DeliveryID:
			*p = notifier.DeliveryID{Notification: notifier.NewID(time.UnixMilli(r.Int64N(1e13)), 1, [8]byte{}), Ordinal: uint16(r.Uint32())}
			return
		case *notifier.ID:
			*p = notifier.NewID(time.UnixMilli(r.Int64N(1e13)), 1, [8]byte{})
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAny(v.Field(i), r)
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64N(5) - 1)
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fillAny(v.Elem(), r)
		}
	case reflect.Slice:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fillAny(v.Index(i), r)
			}
		}
	case reflect.Map:
		states := [...]notifier.State{notifier.StateSent, notifier.StatePending, notifier.StateDead}
		v.Set(reflect.MakeMap(v.Type()))
		for _, s := range states[r.IntN(3) : 3-r.IntN(2)] {
			v.SetMapIndex(reflect.ValueOf(s), reflect.ValueOf(r.IntN(3)))
		}
	default:
		panic("a kind that the test does not know: " + v.Type().String())
	}
}

// What is written by hand is what package json writes, whatever is in it. A new
// field of the resource that encode.go does not know fails here.
func TestAppendNotification_IsWhatJSONWrites(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var n notifier.Notification
		fillAny(reflect.ValueOf(&n).Elem(), r)
		want, err := json.Marshal(&n, outOptions)
		if err != nil {
			t.Fatal(err)
		}
		got := appendNotification(nil, &n)
		if diff := cmp.Diff(strings.Split(string(want), ","), strings.Split(string(got), ",")); diff != "" {
			t.Fatalf("%+v (-json +by hand):\n%s", n, diff)
		}
	}
}
