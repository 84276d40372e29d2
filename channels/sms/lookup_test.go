package sms_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
	"github.com/seed-4b260dfd/notifier/channels/simulate"
)

func TestLookup_AfterALostReply(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "MG0123456789abcdef0123456789abcdef"} {
		s := startProvider(t)
		c := config(s)
		if from != "" {
			c.From = from
		}
		sender := openAs(t, c)
		d := delivery(t, "+15555550100", "Code 123 & “more” 🎉")
		since := time.Now()
		if found, err := sender.Lookup(t.Context(), d, since); err != nil || found.Sent {
			t.Errorf("before: got %+v, %v", found, err)
		}
		s.SetFaults([]simulate.Fault{{Channel: "sms", Kind: simulate.FaultDropReply, Times: 1}})
		if got := attempt(t, sender, d, 1); got.Outcome != notifier.OutcomeUnknown {
			t.Fatalf("got %+v, want unknown", got)
		}
		found, err := sender.Lookup(t.Context(), d, since)
		if err != nil || !found.Sent || !strings.HasPrefix(found.ProviderID, "SM") || found.ProviderStatus == "" {
			t.Errorf("got %+v, %v, want it found", found, err)
		}
		for name, other := range map[string]*notifier.Delivery{
			"number": delivery(t, "+15555550101", "Code 123 & “more” 🎉"), "text": delivery(t, "+15555550100", "Code 124"),
		} {
			if found, err := sender.Lookup(t.Context(), other, since); err != nil || found.Sent {
				t.Errorf("another %s: got %+v, %v", name, found, err)
			}
		}
		// What was sent long before the attempt is another message.
		if found, err := sender.Lookup(t.Context(), d, since.Add(2*time.Minute)); err != nil || found.Sent {
			t.Errorf("before the attempt: got %+v, %v", found, err)
		}
		if n := len(s.Effects()); n != 1 {
			t.Errorf("the provider has %d requests in its log, want 1", n)
		}
	}
}

// The message is found behind others to the same number, page by page, and a
// list that does not end is no answer.
func TestLookup_Pages(t *testing.T) {
	t.Parallel()
	s := startProvider(t)
	sender := openAs(t, config(s))
	d := delivery(t, "+15555550100", "the first")
	since := time.Now()
	attempt(t, sender, d, 1)
	for i := range 25 {
		attempt(t, sender, delivery(t, "+15555550100", fmt.Sprint("later ", i)), 1)
	}
	if found, err := sender.Lookup(t.Context(), d, since); err != nil || !found.Sent {
		t.Errorf("got %+v, %v, want it found", found, err)
	}
	for i := range 80 {
		attempt(t, sender, delivery(t, "+15555550100", fmt.Sprint("much later ", i)), 1)
	}
	if found, err := sender.Lookup(t.Context(), d, since); err == nil {
		t.Errorf("got %+v, want an error: there are too many", found)
	}
}

func TestLookup_AnswersThatAreNone(t *testing.T) {
	t.Parallel()
	const sid = "AC0123456789abcdef0123456789abcdef"
	message := func(sid, status, created string) string {
		return fmt.Sprintf(`{"sid":%q,"to":"+15555550100","body":"a","status":%q,"direction":"outbound-api","error_code":null,"date_created":%q}`, sid, status, created)
	}
	now := time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000")
	for name, test := range map[string]struct {
		status   int
		body     string
		id, fail string
	}{
		"503":              {503, "<html>", "", "503"},
		"401":              {401, `{"code":20003}`, "", "401 20003"},
		"redirect":         {307, "", "", "307"},
		"not JSON":         {200, "<html>", "", "JSON"},
		"elsewhere":        {200, `{"messages":[],"next_page_uri":"https://evil.example/2010-04-01/Accounts/` + sid + `/Messages.json?Page=1"}`, "", "outside the account"},
		"another account":  {200, `{"messages":[],"next_page_uri":"/2010-04-01/Accounts/` + sid + `/../AC1/Messages.json?Page=1"}`, "", "outside the account"},
		"for ever":         {200, `{"messages":[],"next_page_uri":"/2010-04-01/Accounts/` + sid + `/Messages.json?Page=1"}`, "", "more than 100"},
		"none":             {200, `{"messages":[]}`, "", ""},
		"no date":          {200, `{"messages":[` + message("SM1", "sent", "") + `]}`, "", ""},
		"old":              {200, `{"messages":[` + message("SM1", "sent", "Thu, 24 Aug 2023 05:01:45 +0000") + `]}`, "", ""},
		"the better":       {200, `{"messages":[` + message("SM1", "failed", now) + "," + message("SM2", "delivered", now) + `]}`, "SM2", ""},
		"failed":           {200, `{"messages":[` + message("SM1", "failed", now) + `]}`, "SM1", ""},
		"an answer to us":  {200, `{"messages":[` + strings.Replace(message("SM1", "received", now), "outbound-api", "inbound", 1) + `]}`, "", ""},
		"connection drops": {0, "", "", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if test.status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			t.Cleanup(server.Close)
			c := config(startProvider(t))
			c.AccountConfig, c.AccountSID = channels.AccountConfig{Endpoint: server.URL, AllowPrivate: true}, sid
			found, err := openAs(t, c).Lookup(t.Context(), delivery(t, "+15555550100", "a"), time.Now())
			if test.fail != "" {
				if err == nil || !strings.Contains(err.Error(), test.fail) || strings.Contains(err.Error(), "5555550100") {
					t.Errorf("got %+v, %v, want %q in the error and no number", found, err, test.fail)
				}
				return
			}
			if err != nil || found.Sent != (test.id != "") || found.ProviderID != test.id {
				t.Errorf("got %+v, %v, want %q", found, err, test.id)
			}
		})
	}
}
