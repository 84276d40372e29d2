package strictyaml

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time.Duration written as Go writes it: "20s", "12m", "168h",
// "1h30m". A bare number has no unit and is refused.
type Duration time.Duration

// UnmarshalYAML reads the Go form.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || n.ShortTag() == tagInt && n.Value != "0" {
		return fmt.Errorf(`%s is not a duration; write a number with its unit, such as "20s", "12m" or "168h"`, describe(n))
	}
	*d = Duration(v)
	return nil
}

// String returns the Go form.
func (d Duration) String() string { return time.Duration(d).String() }
