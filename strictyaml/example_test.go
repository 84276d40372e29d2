package strictyaml_test

import (
	"fmt"
	"time"

	"github.com/seed-4b260dfd/notifier/strictyaml"
)

func ExampleDecode() {
	var config struct {
		Listen string        `yaml:"listen"`
		Wait   time.Duration `yaml:"wait"`
	}
	doc, problems := strictyaml.Decode("notifier.yaml", []byte("listen: 127.0.0.1:8080\nwiat: 5s\nwait: 5\n"), &config)
	for _, p := range problems {
		fmt.Println(p)
	}
	fmt.Println(doc.Problem([]any{"listen"}, "the port is taken"))
	// Output:
	// notifier.yaml:2: unknown field "wiat"; allowed: listen, wait
	// notifier.yaml:3: wait: 5 is not a duration; write a number with its unit, such as "20s", "12m" or "168h"
	// notifier.yaml:1: the port is taken
}
