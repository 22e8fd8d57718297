package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/inspect"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// looker goes the way of the operator's page.
type looker struct {
	*testing.T
	page      string // its URL, with a slash at the end
	transport *http.Transport
	cookie    string
}

// look lets a looker in with a link.
func look(t *testing.T, client *ipc.Client) *looker {
	t.Helper()
	var link ipc.InspectLink
	if err := client.Call(t.Context(), "create_inspect_link", nil, &link); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(link.ExpiresAt); left <= 0 || left > inspect.CodeLife {
		t.Errorf("the link is good for %v", left)
	}
	page, code, _ := strings.Cut(link.URL, "#")
	l := &looker{T: t, page: page, transport: &http.Transport{}}
	entered := l.ask(http.MethodPost, "session", `{"code":"`+code+`"}`)
	defer entered.Body.Close()
	if entered.StatusCode != http.StatusNoContent {
		t.Fatalf("not let in: %d", entered.StatusCode)
	}
	l.cookie, _, _ = strings.Cut(entered.Header.Get("Set-Cookie"), ";")
	return l
}

func (l *looker) ask(method, path, body string) *http.Response {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), method, l.page+path, strings.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", strings.TrimSuffix(l.page, inspect.Route+"/"))
	}
	if l.cookie != "" {
		r.Header.Set("Cookie", l.cookie)
	}
	got, err := l.transport.RoundTrip(r)
	if err != nil {
		l.Fatal(err)
	}
	return got
}

// sees fails the test unless what stands at a path holds a text.
func (l *looker) sees(path, text string) {
	l.Helper()
	got := l.ask(http.MethodGet, path, "")
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil || !strings.Contains(string(body), text) {
		l.Errorf("%s: %s, %v; want %s", path, body, err, text)
	}
}

// TestTheOperatorInspectsTheDaemon watches a thread while the daemon ends.
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
	l := look(t, client)
	defer l.transport.CloseIdleConnections()
	l.sees("", "inspector")
	l.sees("threads?status=idle", `"threadId":"`+ref.ThreadID+`"`)
	l.sees("threads/"+ref.ThreadID, `"status":"idle"`)
	l.sees("runtimes", `{"runtimes":[`)

	stream := l.ask(http.MethodGet, "threads/"+ref.ThreadID+"/events", "")
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

// TestAThreadDoesNotNoticeThatItIsWatched lets the last client of a thread leave
// that ends with it.
func TestAThreadDoesNotNoticeThatItIsWatched(t *testing.T) {
	home := t.TempDir()
	if _, err := prepareHome(home); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(home, zerolog.Nop(), &fault.Redactor{}, durations{"auto-end": 50 * time.Millisecond})
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	client, err := ipc.Dial(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	var ref ipc.ThreadRef
	if err := client.Call(t.Context(), "create_thread", map[string]any{"provider": "opencode", "autoEndOnDisconnect": true}, &ref); err != nil {
		t.Fatal(err)
	}
	page, err := subscribe(t.Context(), client, ref.ThreadID, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := look(t, client)
	defer l.transport.CloseIdleConnections()
	stream := l.ask(http.MethodGet, "threads/"+ref.ThreadID+"/events", "")
	defer stream.Body.Close()
	limit := time.AfterFunc(20*time.Second, func() { _ = stream.Body.Close() })
	defer limit.Stop()
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() {
		if lines.Text() == "event: snapshot" && page != nil {
			page.Close()
			page = nil
		}
		if strings.Contains(lines.Text(), `"status":"ended"`) {
			return
		}
	}
	t.Errorf("the thread did not end while it was watched: %v", lines.Err())
}
