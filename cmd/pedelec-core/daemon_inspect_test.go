package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/pedelec/pedelec-core/internal/inspect"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// TestTheOperatorInspectsTheDaemon goes the way of the page, and watches a thread
// while the daemon ends.
func TestTheOperatorInspectsTheDaemon(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := openCore(t, prometheus.NewRegistry())
	client, err := ipc.Dial(t.Context(), d.home)
	if err != nil {
		t.Fatal(err)
	}
	var ref ipc.ThreadRef
	if err := client.Call(t.Context(), "create_thread", map[string]any{"provider": "opencode"}, &ref); err != nil {
		t.Fatal(err)
	}
	var link ipc.InspectLink
	if err := client.Call(t.Context(), "create_inspect_link", nil, &link); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(link.ExpiresAt); left <= 0 || left > inspect.CodeLife {
		t.Errorf("the link is good for %v", left)
	}
	page, code, _ := strings.Cut(link.URL, "#")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func(method, path, body, cookie string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, page+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			r.Header.Set("Origin", strings.TrimSuffix(page, "/inspect/"))
		}
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		got, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	read := func(got *http.Response) string {
		t.Helper()
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := read(ask("GET", "", "", "")); !strings.Contains(text, "inspector") {
		t.Errorf("the page is %q", text)
	}
	entered := ask("POST", "session", `{"code":"`+code+`"}`, "")
	if text := read(entered); entered.StatusCode != http.StatusNoContent {
		t.Fatalf("not let in: %d %s", entered.StatusCode, text)
	}
	cookie, _, _ := strings.Cut(entered.Header.Get("Set-Cookie"), ";")
	if text := read(ask("GET", "threads?status=idle", "", cookie)); !strings.Contains(text, `"threadId":"`+ref.ThreadID+`"`) {
		t.Errorf("the threads are %s", text)
	}
	if text := read(ask("GET", "threads/"+ref.ThreadID, "", cookie)); !strings.Contains(text, `"status":"idle"`) {
		t.Errorf("the thread is %s", text)
	}
	if text := read(ask("GET", "runtimes", "", cookie)); !strings.HasPrefix(text, `{"runtimes":[`) {
		t.Errorf("the runtimes are %s", text)
	}

	stream := ask("GET", "threads/"+ref.ThreadID+"/events", "", cookie)
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "id: 1") {
		t.Errorf("the stream begins with %q, %v", line, err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
}
