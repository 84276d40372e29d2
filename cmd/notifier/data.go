package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
)

// dataFlag gathers -data name=value and -data @file.json; what comes later
// goes over what came before.
type dataFlag struct{ data map[string]any }

// String is for the flag package.
func (d *dataFlag) String() string { return "" }

// Set reads one flag. A value is a string; other types come from a file.
func (d *dataFlag) Set(s string) error {
	if d.data == nil {
		d.data = map[string]any{}
	}
	if file, ok := strings.CutPrefix(s, "@"); ok {
		object, err := readObject(file)
		maps.Copy(d.data, object)
		return err
	}
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("write name=value, or @file.json for a whole object")
	}
	d.data[name] = value
	return nil
}

// readObject reads a file that is one JSON object. Numbers keep their digits.
func readObject(file string) (map[string]any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil || object == nil {
		return nil, fmt.Errorf("%s is not a JSON object such as {\"order_id\": \"42\"}", file)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s has more after the object", file)
	}
	return object, nil
}
