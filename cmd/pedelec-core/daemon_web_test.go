package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// bearer adds a secret to each request.
type bearer struct {
	http.RoundTripper
	secret string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.secret)
	return b.RoundTripper.RoundTrip(r)
}

// TestCloseCutsOffAgentsAndTransfers opens what keeps a connection busy for long.
func TestCloseCutsOffAgentsAndTransfers(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := openCore(t, prometheus.NewRegistry())
	client, err := ipc.Dial(t.Context(), d.home)
	if err != nil {
		t.Fatal(err)
	}
	var ref ipc.ThreadRef
	workspace := t.TempDir()
	payload := map[string]any{"provider": "opencode", "workspace": map[string]any{"path": workspace}, "skills": jsontext.Value(addTool)}
	if err := client.Call(t.Context(), "create_thread", payload, &ref); err != nil {
		t.Fatal(err)
	}

	url, secret := d.tools.Open(ref.ThreadID, thread.Skills{Tools: []thread.Tool{{Name: "add", Description: "adds", ArgsSchema: jsontext.Value(`{"type":"object"}`)}}})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	agent := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := agent.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearer{transport, secret}}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if list, err := session.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 1 {
		t.Fatalf("listed %+v, %v", list, err)
	}

	upload := beginUpload(t, client, ref.ThreadID)
	start := time.Now()
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > clientsLimit {
		t.Errorf("closing took %v", took)
	}
	if answer, _ := io.ReadAll(upload); bytes.HasPrefix(answer, []byte("HTTP/1.1 201")) {
		t.Errorf("half an upload was taken: %s", answer)
	}
	left, err := filepath.Glob(filepath.Join(workspace, ".pedelec-runtime", "assets", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the upload left %v, %v", left, err)
	}
	hidden, err := filepath.Glob(filepath.Join(workspace, ".pedelec-runtime", "assets", ".*"))
	if err != nil || len(hidden) > 0 {
		t.Errorf("the upload left %v, %v", hidden, err)
	}
}

// beginUpload sends the first part of a file and returns the connection.
func beginUpload(t *testing.T, client *ipc.Client, threadID string) net.Conn {
	t.Helper()
	var ticket ipc.UploadTicket
	payload := map[string]any{"threadId": threadID, "filename": "a.bin", "sizeBytes": 1 << 20}
	if err := client.Call(t.Context(), "create_asset_upload", payload, &ticket); err != nil {
		t.Fatal(err)
	}
	host, path, _ := strings.Cut(strings.TrimPrefix(ticket.UploadURL, "http://"), "/")
	conn, err := net.Dial("tcp4", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "PUT /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, host, ticket.Token, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	goOn := make([]byte, len("HTTP/1.1 100"))
	if _, err := io.ReadFull(conn, goOn); err != nil || string(goOn) != "HTTP/1.1 100" {
		t.Fatalf("the upload was not begun: %s, %v", goOn, err)
	}
	return conn
}

// TestAPeerThatTakesNoAnswerIsCutOff asks so often without reading that the answers fit
// no buffer any more.
func TestAPeerThatTakesNoAnswerIsCutOff(t *testing.T) {
	home := t.TempDir()
	if _, err := prepareHome(home); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(home, zerolog.Nop(), &fault.Redactor{}, durations{"write-timeout": 200 * time.Millisecond})
	d.metrics = prometheus.NewRegistry()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for _, path := range []string{"/mcp/t", "/healthz", "/nothing"} {
		t.Run(path, func(t *testing.T) {
			conn, err := net.Dial("tcp", d.web)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// Megabytes of answers go into the system's buffers first, which a
			// busy machine takes its time for.
			if err := conn.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			many := bytes.Repeat(fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, d.web), 1000)
			for err == nil {
				_, err = conn.Write(many)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the daemon keeps a connection whose peer takes nothing")
			}
		})
	}
}

func TestStrangersLearnNothingOnTheWeb(t *testing.T) {
	d := openCore(t, prometheus.NewRegistry())
	defer func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		method, path, host string
		status             int
	}{
		{"GET", "/nothing", "", http.StatusNotFound},
		{"POST", "/mcp/t1", "", http.StatusUnauthorized},
		{"POST", "/mcp/t1", "evil.example", http.StatusMisdirectedRequest},
		{"GET", "/downloads/dnl_0", "", http.StatusUnauthorized},
		{"GET", "/downloads/dnl_0", "evil.example", http.StatusMisdirectedRequest},
		{"PUT", "/uploads/upl_0", "evil.example", http.StatusMisdirectedRequest},
		{"OPTIONS", "/uploads/upl_0", "", http.StatusNoContent},
		{"GET", "/metrics", "evil.example", http.StatusMisdirectedRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+d.web+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %s for host %q: %s, want %d", c.method, c.path, c.host, resp.Status, c.status)
		}
	}
}

func TestTheCommandOfAgentsIsInTheHome(t *testing.T) {
	d := openCore(t, prometheus.NewRegistry())
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cliPath(d.home)); err != nil {
		t.Error(err)
	}
}
