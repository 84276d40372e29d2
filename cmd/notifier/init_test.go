package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInit_WhatItMakesPassesCheck(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"init"}, {"init", "-simulated"}} {
		dir := filepath.Join(t.TempDir(), "new")
		c := newCLI(t, nil)
		c.ok(append(args, dir)...)
		out := c.ok("check", "-strict", "-config", filepath.Join(dir, configName))
		if !strings.HasPrefix(out, "ok: 2 policies, ") {
			t.Errorf("%v: check printed %q, want two policies", args, out)
		}
		pr := loadTestProject(t, dir)
		orders := map[string]bool{}
		for _, typ := range pr.policies.Types() {
			orders[string(pr.policies.Policy(typ).Order)] = true
		}
		if diff := cmp.Diff(map[string]bool{"claim_first": true, "send_first": true}, orders); diff != "" {
			t.Errorf("%v: orders (-want +got):\n%s", args, diff)
		}
		info, err := os.Stat(filepath.Join(dir, configName))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%v: the configuration has the mode %o, want 600: it holds secrets", args, got)
		}
	}
}

func TestInit_WritesOverNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := map[string]string{"templates/weekly_digest/email.yaml": "mine\n"}
	writeFiles(t, dir, mine)
	_, stderr, code := newCLI(t, nil).run("init", dir)
	if code != 1 || !strings.Contains(stderr, "there already: templates/weekly_digest/email.yaml; nothing was written") {
		t.Errorf("got %d, %q; want the file named", code, stderr)
	}
	var there []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			there = append(there, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "templates/weekly_digest/email.yaml")}; !cmp.Equal(want, there) {
		t.Errorf("got the files %v, want %v", there, want)
	}
}

func TestRender_EveryChannel(t *testing.T) {
	t.Parallel()
	got := newCLI(t, nil).ok("render", "order_shipped", "-policies", "../../examples/policies", "-templates", "../../examples/templates",
		"-data", "order_id=42", "-data", "carrier=DHL & Sons", "-locale", "fr-CA")
	want := `apns, 174 bytes, from ../../examples/templates/order_shipped/fr/push.yaml
  collapse id: order-42
  {
    "push_type": "alert",
    "payload": {
      "aps": {
        "alert": {
          "body": "Votre colis est chez DHL & Sons.",
          "title": "La commande 42 est en route"
        },
        "sound": "default"
      },
      "data": {
        "order_id": "42"
      }
    }
  }
fcm, 217 bytes, from ../../examples/templates/order_shipped/fr/push.yaml
  collapse id: order-42
  {
    "notification": {
      "title": "La commande 42 est en route",
      "body": "Votre colis est chez DHL & Sons."
    },
    "data": {
      "order_id": "42"
    },
    "android": {
      "notification": {
        "sound": "default"
      }
    },
    "apns": {
      "payload": {
        "aps": {
          "sound": "default"
        }
      }
    }
  }
webpush, 106 bytes, from ../../examples/templates/order_shipped/fr/push.yaml
  collapse id: order-42
  {
    "body": "Votre colis est chez DHL & Sons.",
    "data": {
      "order_id": "42"
    },
    "title": "La commande 42 est en route"
  }
email, 231 bytes, from ../../examples/templates/order_shipped/email.yaml
  {
    "subject": "Your order 42 is on its way",
    "text": "Your order 42 left our warehouse with DHL & Sons.\n",
    "html": "<p>Your order <b>42</b> left our warehouse with DHL &amp; Sons.</p>\n"
  }
sms, 80 bytes, from ../../examples/templates/order_shipped/sms.yaml
  segments: 1
  {
    "text": "Order 42: DHL & Sons has your parcel.",
    "encoding": "GSM-7",
    "segments": 1
  }
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("render (-want +got):\n%s", diff)
	}
}

func TestRender_DataFromAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"data.json": `{"payment_id": "p_1", "status": "paid", "amount": 1999, "currency": "EUR"}`})
	got := newCLI(t, nil).ok("render", "payment_event", "-policies", "../../examples/policies", "-templates", "../../examples/templates",
		"-data", "@"+filepath.Join(dir, "data.json"), "-data", "status=refunded")
	for _, want := range []string{`"amount": 1999`, `"status": "refunded"`} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout %s", got, want)
		}
	}
}

func TestRender_EveryExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	articles := `{"week": "49", "articles": [{"title": "Tea & talk", "url": "https://example.com/1"}, {"title": "Rain", "url": "https://example.com/2"}]}`
	writeFiles(t, dir, map[string]string{"digest.json": articles})
	for typ, tc := range map[string]struct {
		data []string
		want string
	}{
		"order_shipped": {[]string{"order_id=42", "carrier=DHL", "tracking_url=https://example.com/t"}, `Follow it here: https://example.com/t`},
		"login_code":    {[]string{"code=123456"}, `123456 is your code`},
		"weekly_digest": {[]string{"@" + filepath.Join(dir, "digest.json")}, `Tea &amp; talk</a>`},
		"price_drop":    {[]string{"article_id=1", "article=Kettle", "price=20 €", "dropped_by=5 €"}, `Now 20 €, 5 € less than before.`},
		"payment_event": {[]string{"payment_id=1", "status=paid", "amount=1", "currency=EUR"}, `"type": "payment.status"`},
	} {
		args := []string{"render", typ, "-policies", "../../examples/policies", "-templates", "../../examples/templates"}
		for _, d := range tc.data {
			args = append(args, "-data", d)
		}
		if got := newCLI(t, nil).ok(args...); !strings.Contains(got, tc.want) {
			t.Errorf("%s: got\n%s\nwithout %s", typ, got, tc.want)
		}
	}
}

func TestCheck_PrintsSchedules(t *testing.T) {
	t.Parallel()
	got := newCLI(t, nil).ok("check", "-v", "-policies", "../../examples/policies", "-templates", "../../examples/templates")
	want := "login_code apns (send_first): again after at most 1s, 2s, 4s, 8s, 16s, 20s, 20s (half"
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwithout %s", got, want)
	}
}
