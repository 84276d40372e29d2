package pure_test

import (
	"fmt"

	"github.com/seed-4b260dfd/notifier/pure"
)

func ExampleTemplate_Render() {
	t, err := pure.Parse(`Hi {{.name | default "there"}}{{if gt .count 1}}, {{.count}} things{{end}}`, pure.Text)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Render(map[string]any{"count": 2.0}))
	// Output: Hi there, 2 things <nil>
}
