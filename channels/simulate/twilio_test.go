package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sms asks the simulated Twilio for something; edit may spoil it.
func sms(t *testing.T, s *Server, method, path string, form url.Values, edit func(*http.Request)) answerOf {
	t.Helper()
	f := s.Files()
	r, err := http.NewRequestWithContext(t.Context(), method, s.HTTPURL()+"/2010-04-01/Accounts/"+f.TwilioAccountSID+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.GetBody = nil
	r.SetBasicAuth(f.TwilioAccountSID, f.TwilioAuthToken)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if edit != nil {
		edit(r)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return read(c.Do(r))
}

// textForm is a message that is taken, with changes; an empty value takes a field away.
func textForm(changes ...string) url.Values {
	form := url.Values{"To": {"+15555550100"}, "From": {"+15005550006"}, "Body": {"Hello 🎉"}, "ValidityPeriod": {"60"}}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			form.Del(changes[i])
		}
	}
	return form
}

func postText(t *testing.T, s *Server, form url.Values) answerOf {
	t.Helper()
	return sms(t, s, http.MethodPost, "/Messages.json", form, nil)
}

func TestTwilio_AcceptsAMessage(t *testing.T) {
	t.Parallel()
	s := start(t)
	form := textForm("StatusCallback", "http://127.0.0.1:1/r?delivery=dlv_1")
	got := sms(t, s, http.MethodPost, "/Messages.json", form, func(r *http.Request) { r.Header.Set("X-Attempt", "3") })
	var m struct {
		SID, To, From, Body, Status, Direction string
		Segments                               string `json:"num_segments"`
		Created                                string `json:"date_created"`
	}
	if err := json.Unmarshal([]byte(got.Body), &m); err != nil || got.Status != 201 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if created, err := time.Parse(time.RFC1123Z, m.Created); err != nil || time.Since(created) > time.Hour {
		t.Errorf("date_created %q: %v", m.Created, err)
	}
	if len(m.SID) != 34 || !strings.HasPrefix(m.SID, "SM") || m.To != "+15555550100" || m.Body != "Hello 🎉" || m.Segments != "1" || m.Status != "queued" || m.Direction != "outbound-api" {
		t.Errorf("got %+v", m)
	}
	e := only(t, s)
	hash := e.BodyHash
	e.Time, e.BodyHash = time.Time{}, ""
	want := Entry{Channel: "sms", Account: s.Files().TwilioAccountSID, Address: "+15555550100", Delivery: "dlv_1", Fence: 3, EffectKey: "dlv_1",
		Title: "Hello 🎉", Answer: "201", TookEffect: true, MayTakeEffect: true}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	// The rest of the time differs between attempts, and nothing else may.
	form.Set("ValidityPeriod", "59")
	postText(t, s, form)
	form.Set("Body", "Hello")
	postText(t, s, form)
	if all := s.Effects(); all[1].BodyHash != hash || all[2].BodyHash == hash {
		t.Errorf("hashes: got %s, %s, %s", hash, all[1].BodyHash, all[2].BodyHash)
	}
}

func TestTwilio_Refuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		form         url.Values
		edit         func(*http.Request)
		status, code int
	}{
		"no To":              {textForm("To", ""), nil, 400, 21604},
		"no sender":          {textForm("From", ""), nil, 400, 21603},
		"no text":            {textForm("Body", ""), nil, 400, 21602},
		"1601 characters":    {textForm("Body", strings.Repeat("a", 1601)), nil, 400, 21617},
		"To is no number":    {textForm("To", "5555550100"), nil, 400, 21211},
		"From is no number":  {textForm("From", "5005550006"), nil, 400, 21212},
		"From not ours":      {textForm("From", "+15555550111"), nil, 400, 21606},
		"no such service":    {textForm("MessagingServiceSid", "MG1"), nil, 400, 21701},
		"validity 0":         {textForm("ValidityPeriod", "0"), nil, 400, 21624},
		"validity 10 h, 1 s": {textForm("ValidityPeriod", "36001"), nil, 400, 21624},
		"callback":           {textForm("StatusCallback", "/here"), nil, 400, 21609},
		"STOP":               {textForm("To", "+15005550004"), nil, 400, 21610},
		"queue full":         {textForm("From", "+15005550008"), nil, 400, 21611},
		"no password":        {textForm(), func(r *http.Request) { r.Header.Del("Authorization") }, 401, 20003},
		"wrong password":     {textForm(), func(r *http.Request) { r.SetBasicAuth("AC1", "x") }, 401, 20003},
		"JSON":               {textForm(), func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }, 415, 20415},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			got := sms(t, s, http.MethodPost, "/Messages.json", tt.form, tt.edit)
			var e struct{ Code, Status int }
			if err := json.Unmarshal([]byte(got.Body), &e); err != nil || got.Status != tt.status || e.Status != tt.status || e.Code != tt.code {
				t.Errorf("got %+v, %v, want %d with %d", got, err, tt.status, tt.code)
			}
			later := tt.status == 401 || tt.code == 21611
			if e := only(t, s); e.TookEffect || e.MayTakeEffect == later {
				t.Errorf("log: got %+v", e)
			}
		})
	}
}

func TestTwilio_Faults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		fault     Fault
		status    int
		body, err string
		answer    string // of the log; empty: no line
		took, may bool
	}{
		{"delay", Fault{Kind: FaultDelay, Delay: time.Millisecond}, 201, `"status":"`, "", "201", true, true},
		{"drop_reply", Fault{Kind: FaultDropReply}, 0, "", "EOF", "none", true, true},
		{"drop_before", Fault{Kind: FaultDropBefore}, 0, "", "EOF", "", false, false},
		{"truncate", Fault{Kind: FaultTruncate}, 201, `{"sid": "SM`, "unexpected EOF", "201 truncated", true, true},
		{"500", Fault{Kind: FaultStatus, Status: 500, Reason: "oops"}, 500, `"code": 20500, "message": "oops"`, "", "500 oops", false, true},
		{"503 and delivered", Fault{Kind: FaultStatus, Status: 503, HTML: true, Effect: new(true)}, 503, "<!DOCTYPE html>", "", "503", true, true},
		{"429", Fault{Kind: FaultStatus, Status: 429, RetryAfter: "7"}, 429, `"code": 20429`, "", "429", false, false},
		{"code", Fault{Kind: FaultStatus, Status: 400, Reason: "21408"}, 400, `"code": 21408`, "", "400 21408", false, true},
		{"redirect", Fault{Kind: FaultRedirect}, 307, `"code": 20307`, "", "307", false, true},
		{"dead", Fault{Kind: FaultDeadToken}, 400, `"code": 21211`, "", "400 21211", false, true},
		{"dead, STOP", Fault{Kind: FaultDeadToken, Reason: "21610"}, 400, `"code": 21610`, "", "400 21610", false, true},
		{"dead later", Fault{Kind: FaultDeadToken, Reason: "30005"}, 201, `"error_code":`, "", "201", true, true},
		{"receipt", Fault{Kind: FaultReceipt, Reason: "failed 30008"}, 201, `"status":"`, "", "201", true, true},
		{"of another number", Fault{Kind: FaultHang, Address: "+15555550199"}, 201, `"status":"`, "", "201", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			tt.fault.Channel = "sms"
			s.SetFaults([]Fault{tt.fault})
			got := postText(t, s, textForm())
			if got.Status != tt.status || !strings.Contains(got.Body, tt.body) || (got.Err == nil) != (tt.err == "") || got.Err != nil && !strings.Contains(got.Err.Error(), tt.err) {
				t.Errorf("got %+v", got)
			}
			if got.Header.Get("Retry-After") != tt.fault.RetryAfter {
				t.Errorf("Retry-After: got %q, want %q", got.Header.Get("Retry-After"), tt.fault.RetryAfter)
			}
			if tt.answer == "" {
				if all := s.Effects(); len(all) != 0 {
					t.Errorf("got log lines %+v, want none", all)
				}
				return
			}
			if e := only(t, s); e.Answer != tt.answer || e.TookEffect != tt.took || e.MayTakeEffect != tt.may {
				t.Errorf("log: got %+v, want answer %q, took %v, may %v", e, tt.answer, tt.took, tt.may)
			}
			if n := len(listed(t, s, "")); (n == 1) != tt.took {
				t.Errorf("the list has %d messages, took effect: %v", n, tt.took)
			}
		})
	}
}

// listed is a list's texts, in its order.
func listed(t *testing.T, s *Server, query string) []string {
	t.Helper()
	got := sms(t, s, http.MethodGet, "/Messages.json"+query, nil, nil)
	var list struct {
		Messages []struct{ Body string }
		Next     string `json:"next_page_uri"`
	}
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil || got.Status != 200 {
		t.Fatalf("%s: got %+v, %v", query, got, err)
	}
	bodies := []string{}
	for _, m := range list.Messages {
		bodies = append(bodies, m.Body)
	}
	if list.Next != "" {
		_, next, _ := strings.Cut(list.Next, "/Messages.json")
		bodies = append(append(bodies, "|"), listed(t, s, next)...)
	}
	return bodies
}

func TestTwilio_List(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i := range 5 {
		postText(t, s, textForm("Body", fmt.Sprint(i), "To", fmt.Sprintf("+1555555010%d", i%2)))
	}
	postText(t, s, textForm("Body", "x", "From", "Shop"))
	tomorrow := time.Now().UTC().Add(24 * time.Hour).Format(time.DateOnly)
	yesterday := time.Now().UTC().Add(-24 * time.Hour).Format(time.DateOnly)
	for query, want := range map[string]string{
		"":                                    "x 4 3 2 1 0",
		"?To=%2B15555550101":                  "3 1",
		"?From=Shop":                          "x",
		"?To=%2B15555550100&From=" + "Nobody": "",
		"?DateSent%3E=" + yesterday:           "x 4 3 2 1 0",
		"?DateSent%3E=" + tomorrow + "T23":    "",
		"?DateSent%3C=" + tomorrow:            "x 4 3 2 1 0",
		"?PageSize=4":                         "x 4 3 2 | 1 0",
		"?PageSize=2&To=%2B15555550100":       "x 4 | 2 0",
	} {
		if got := strings.Join(listed(t, s, query), " "); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	for path, want := range map[string]int{".json": 200, "/Messages/SM1.json": 404, "/Calls.json": 404} {
		if got := sms(t, s, http.MethodGet, path, nil, nil); got.Status != want {
			t.Errorf("%s: got %+v, want %d", path, got, want)
		}
	}
	if got := sms(t, s, http.MethodGet, ".json", nil, func(r *http.Request) { r.SetBasicAuth(s.Files().TwilioAccountSID, "x") }); got.Status != 401 {
		t.Errorf("wrong token: got %+v, want 401", got)
	}
	if got := sms(t, s, http.MethodDelete, "/Messages.json", nil, nil); got.Status != 405 {
		t.Errorf("DELETE: got %+v, want 405", got)
	}
}

func TestTwilio_CallsBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, to, reason, want string }{
		{"delivered", "+15555550100", "", "queued sent delivered"},
		{"30005", "+15005553005", "", "queued sent undelivered:30005"},
		{"failed", "+15555550100", "failed 30007", "queued sent failed:30007"},
		{"sent and no more", "+15555550100", "sent", "queued sent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			called := make(chan string, 8)
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				form, err := url.ParseQuery(string(body))
				if err != nil {
					t.Error(err)
				}
				if got, want := r.Header.Get("X-Twilio-Signature"), TwilioSignature(s.Files().TwilioAuthToken, "http://"+r.Host+r.URL.String(), form); got != want {
					t.Errorf("got the signature %q, want %q", got, want)
				}
				if form.Get("To") != tt.to || form.Get("AccountSid") != s.Files().TwilioAccountSID || r.URL.Query().Get("delivery") != "dlv_1" {
					t.Errorf("got %v at %s", form, r.URL)
				}
				status := form.Get("MessageStatus")
				if code := form.Get("ErrorCode"); code != "" {
					status += ":" + code
				}
				called <- status
				w.WriteHeader(http.StatusServiceUnavailable) // and it is not called again
			}))
			t.Cleanup(receiver.Close)
			if tt.reason != "" {
				s.SetFaults([]Fault{{Channel: "sms", Kind: FaultReceipt, Reason: tt.reason}})
			}
			postText(t, s, textForm("To", tt.to, "StatusCallback", receiver.URL+"/r?delivery=dlv_1"))
			var got []string
			for range strings.Fields(tt.want) {
				got = append(got, <-called)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTwilioSegments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		strings.Repeat("a", 160): 1, strings.Repeat("a", 161): 2, strings.Repeat("€", 81): 2, strings.Repeat("{", 153): 3,
		strings.Repeat("漢", 70): 1, strings.Repeat("漢", 71): 2, strings.Repeat("🎉", 67): 3, "It’s " + strings.Repeat("a", 155): 3,
	} {
		if got := twilioSegments(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

func TestInit_FolderOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Init(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	old, err := readSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	old.TwilioAccountSID, old.TwilioAuthToken, old.TwilioFrom = "", "", ""
	if _, err := old.save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Init(dir, Config{})
	if err != nil || again.TwilioAccountSID == "" || again.TwilioAuthToken == "" || again.TwilioFrom == "" || again.WebhookSecret != first.WebhookSecret {
		t.Errorf("got %+v, %v, want an account and the old secrets", again, err)
	}
	if third, err := Init(dir, Config{}); err != nil || third != again {
		t.Errorf("got %+v, %v, want the same again", third, err)
	}
}
