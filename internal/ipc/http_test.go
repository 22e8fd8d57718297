package ipc

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestProbesAndMetrics(t *testing.T) {
	var notReady error
	reg := prometheus.NewRegistry()
	r := newRig(t, func(c *Config) {
		c.Registerer, c.Gatherer = reg, reg
		c.Ready = func() error { return notReady }
	})
	web := httptest.NewServer(r.server.HTTPHandler())
	defer web.Close()

	p := r.dial(t)
	id := r.createThread(t)
	p.send(ping("a"), `{"requestId":"b","type":"nonsense"}`, subscribe("c", "nobody"), subscribe("d", id))
	for range 4 {
		p.line()
	}
	r.threads.tell(id, delta("the subscription flows"))
	p.line()
	if status, body := get(t, web.URL+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("healthz: %d %s", status, body)
	}
	if status, body := get(t, web.URL+"/readyz"); status != 200 || body != "ok\n" {
		t.Errorf("readyz: %d %s", status, body)
	}
	notReady = errors.New("the store at /secret/path is broken")
	if status, body := get(t, web.URL+"/readyz"); status != 503 || strings.Contains(body, "/secret") {
		t.Errorf("readyz, not ready: %d %s", status, body)
	}
	notReady = fault.New(fault.StorageFull, "The disk of /secret/path has no room.")
	if status, body := get(t, web.URL+"/readyz"); status != 503 || strings.Contains(body, "/secret") || !strings.Contains(body, "STORAGE_FULL") {
		t.Errorf("readyz, not ready: %d %s", status, body)
	}
	status, body := get(t, web.URL+"/metrics")
	if status != 200 {
		t.Fatalf("metrics: %d", status)
	}
	hasAll(t, body,
		`pedelec_ipc_requests_total{code="ok",type="ping"} 1`,
		`pedelec_ipc_requests_total{code="IPC_UNAVAILABLE",type="unknown"} 1`,
		`pedelec_ipc_requests_total{code="THREAD_NOT_FOUND",type="subscribe_thread"} 1`,
		`pedelec_ipc_subscriptions 1`,
		`pedelec_ipc_request_seconds_count{type="ping"} 1`,
	)
	if status, _ := get(t, web.URL+"/nothing"); status != 404 {
		t.Errorf("unknown path: %d", status)
	}
}

func TestHTTPRoutesRefuseForeignHostsAndPages(t *testing.T) {
	r := newRig(t)
	web := httptest.NewServer(r.server.HTTPHandler())
	defer web.Close()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/nothing"} {
		if status, _ := get(t, web.URL+path, "Host", "evil.example"); status != http.StatusMisdirectedRequest {
			t.Errorf("%s with a foreign Host: %d", path, status)
		}
		if status, _ := get(t, web.URL+path, "Origin", "https://a.example"); status != http.StatusForbidden {
			t.Errorf("%s with an Origin: %d", path, status)
		}
		if status, _ := get(t, web.URL+path, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
			t.Errorf("%s across sites: %d", path, status)
		}
	}
}

func TestADaemonThatLeavesSaysSoBeforeItCloses(t *testing.T) {
	r := newRig(t)
	web := httptest.NewServer(r.server.HTTPHandler())
	defer web.Close()
	p := r.dial(t)
	p.send(ping("before"))
	if line := p.line(); strings.Contains(line, "leaving") {
		t.Errorf("a daemon that serves answers %s", line)
	}
	r.server.Leave()
	p.send(ping("after"))
	hasAll(t, p.line(), `"connected":true`, `"leaving":true`)
	if status, _ := get(t, web.URL+"/readyz"); status != 503 {
		t.Errorf("readyz: %d", status)
	}
}

func TestReadinessEndsWithTheShutdown(t *testing.T) {
	r := newRig(t)
	web := httptest.NewServer(r.server.HTTPHandler())
	defer web.Close()
	if err := r.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _ := get(t, web.URL+"/readyz"); status != 503 {
		t.Errorf("readyz: %d", status)
	}
}
