package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// openCore opens a daemon inside the test's own process.
func openCore(t *testing.T, metrics registry) *core {
	t.Helper()
	home := t.TempDir()
	if _, err := prepareHome(home); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(home, zerolog.Nop(), &fault.Redactor{}, nil)
	d.metrics = metrics
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCloseLeavesNothingRunning(t *testing.T) {
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
	sub, err := subscribe(t.Context(), client, ref.ThreadID, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var last ipc.Event
	for ev := range sub.events {
		last = ev
	}
	if last.Status != "ended" { // its workspace is a temporary one
		t.Errorf("the subscriber was told last of %+v, want the end of the thread", last)
	}
	if left, err := d.workspaces.ListManaged(); err != nil || len(left) > 0 {
		t.Errorf("temporary workspaces are left: %v, %v", left, err)
	}
}

func TestProbesTellHowTheDaemonIs(t *testing.T) {
	d := openCore(t, prometheus.NewRegistry())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		resp, err := client.Get("http://" + d.runtime.HTTPEndpoint + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", path, resp.Status, err)
		}
		if path == "/metrics" && !strings.Contains(string(body), `pedelec_agents{provider="opencode"} 0`) {
			t.Errorf("%s lacks the agents:\n%s", path, body)
		}
	}
	d.Shutdown()
	d.Shutdown() // asking twice is no fault
	if err := d.ready(); err == nil {
		t.Error("a leaving daemon calls itself ready")
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// recordingRegistry remembers what was registered, with or without samples.
type recordingRegistry struct {
	*prometheus.Registry
	descs []string
}

func (r *recordingRegistry) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	for d := range descs {
		r.descs = append(r.descs, d.String())
	}
	return r.Registry.Register(c)
}

func (r *recordingRegistry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

var (
	descText   = regexp.MustCompile(`fqName: "(pedelec_[^"]+)", help: "([^"]*)".*constLabels: \{(.*)\}, variableLabels: \{([^}]*)\}`)
	constLabel = regexp.MustCompile(`(\w+)="[^"]*"`)
)

// TestDocsListEveryMetric keeps the table of metrics in OPERATIONS.md true. With
// -update it writes the table.
func TestDocsListEveryMetric(t *testing.T) {
	metrics := &recordingRegistry{Registry: prometheus.NewRegistry()}
	d := openCore(t, metrics)
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, desc := range metrics.descs {
		if m := descText.FindStringSubmatch(desc); m != nil {
			labels := strings.Trim(constLabel.ReplaceAllString(m[3], "$1")+","+m[4], ",")
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", m[1], strings.ReplaceAll(labels, ",", ", "), m[2]))
		}
	}
	slices.Sort(rows)
	rows = slices.Compact(rows) // one for each value of a constant label
	checkGenerated(t, operationsDoc, "metrics", "| metric | labels | |\n| --- | --- | --- |\n"+strings.Join(rows, ""))
}
