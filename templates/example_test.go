package templates_test

import (
	"fmt"
	"testing/fstest"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/templates"
)

func ExampleLoad() {
	folder := fstest.MapFS{
		"templates/order_shipped/push.yaml":    {Data: []byte("title: Order {{.order_id}}\n")},
		"templates/order_shipped/fr/push.yaml": {Data: []byte("title: Commande {{.order_id}}\n")},
		"templates/order_shipped/email.yaml":   {Data: []byte("subject: Order {{.order_id}}\ntext: |\n  Sent at {{now}}\n")},
	}
	set, problems := templates.Load(folder, "templates")
	for _, p := range problems {
		fmt.Println(p)
	}
	fmt.Println(set.Find("order_shipped", notifier.ChannelAPNs, "fr-CA").File)
	// Output:
	// templates/order_shipped/email.yaml:3: text: there is no function "now" here; allowed: and, default, eq, ge, gt, index, join, json, le, len, lower, lt, ne, not, or, printf, slice, trim, upper, urlquery
	// templates/order_shipped/fr/push.yaml
}

func ExampleTemplate_Render() {
	folder := fstest.MapFS{"t/push.yaml": {Data: []byte(`
title: Order {{.order_id}}
body: Hi {{.name | default "there"}}, it is on its way.
badge: "{{.unread}}"
`)}}
	set, _ := templates.Load(folder, ".")
	push := set.Find("t", notifier.ChannelAPNs, "")
	fields, err := push.Render(map[string]any{"order_id": "42", "unread": 3.0})
	fmt.Println(fields, err)
	_, err = push.Render(map[string]any{"unread": 3.0})
	fmt.Println(err)
	// Output:
	// map[badge:3 body:Hi there, it is on its way. title:Order 42] <nil>
	// t/push.yaml: title: line 2: .order_id is not set
}
