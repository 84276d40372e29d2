//lint:file-ignore SA1019 golang.org/x/net/http2 is frozen in favour of net/http; the chain drives the connection as the channels do.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"

	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/token"
	"golang.org/x/net/http2"

	"github.com/seed-4b260dfd/notifier/api"
	"github.com/seed-4b260dfd/notifier/channels/apns"
)

// bareChain is what a push costs with two hops and nothing in between: it takes
// the same request as a server, forwards one push, and answers when the
// provider has. It stores nothing, recognises no repeat, and loses what it
// holds when it dies.
type bareChain struct {
	client *apns2.Client
	topic  string
}

// serveChain runs the bare chain with the account of the configuration in dir
// until ctx ends.
func serveChain(ctx context.Context, p *process, dir string) error {
	cfg, problems, err := loadConfig(filepath.Join(dir, configName), true, p.getenv)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s", problems[0])
	}
	h, err := newBareChain(cfg.Channels.APNs["shop"])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := api.NewServer(listener.Addr().String(), h)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(p.stdout, "listening on http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the bare chain: %w", err)
	}
	return nil
}

// newBareChain drives the connection with the settings that a server's account
// has, its way with headers among them, through nothing of ours.
func newBareChain(a apns.Config) (*bareChain, error) {
	key, err := token.AuthKeyFromFile(a.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key file %q: %w", a.KeyFile, err)
	}
	t, err := a.TLS()
	if err != nil {
		return nil, err
	}
	return &bareChain{topic: a.Topic, client: &apns2.Client{
		Host:  a.Endpoint,
		Token: &token.Token{AuthKey: key, KeyID: a.KeyID, TeamID: a.TeamID},
		HTTPClient: &http.Client{Transport: &http2.Transport{
			TLSClientConfig: t, StrictMaxConcurrentStreams: true, DisableCompression: true, MaxEncoderHeaderTableSize: 1,
		}},
	}}, nil
}

// ServeHTTP forwards one push.
func (b *bareChain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 256<<10))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var m struct {
		To struct {
			APNs []struct{ Token string }
		}
		Data struct{ N string }
	}
	if err := json.Unmarshal(body, &m); err != nil || len(m.To.APNs) != 1 {
		http.Error(w, "one token, please", http.StatusBadRequest)
		return
	}
	payload, err := json.Marshal(map[string]any{"aps": map[string]any{"alert": map[string]string{"title": "A measurement", "body": "Number " + m.Data.N + "."}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	resp, err := b.client.PushWithContext(r.Context(), &apns2.Notification{
		DeviceToken: m.To.APNs[0].Token, Topic: b.topic, PushType: apns2.PushTypeAlert, Payload: payload,
	})
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	case !resp.Sent():
		http.Error(w, resp.Reason, http.StatusBadGateway)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"apns_id": "`+resp.ApnsID+`"}`+"\n")
	}
}
