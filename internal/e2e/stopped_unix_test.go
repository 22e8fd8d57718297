//go:build !windows

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limits are those under which the daemon is stopped, and standstill is for how
// long: each of them has passed, by far, when it goes on.
const (
	limits     = "PEDELEC_DURATIONS=silence=5s;first-request=5s;ping=1s;pong=5s;write-timeout=5s;auto-end=5s;transfer-idle=5s"
	toolLimit  = 5000 // milliseconds
	standstill = 7 * time.Second
)

// standStill stops the daemon's process for a while, as a debugger or a machine
// without memory does. What clients do meanwhile is done by act.
func (d *daemon) standStill(act func()) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		d.t.Fatal(err)
	}
	over := time.After(standstill)
	act()
	<-over
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		d.t.Fatal(err)
	}
}

// TestAStandstillOfTheDaemonIsBlamedOnNobody stops the daemon for longer than its
// limits. What others did in time, while it could not look, counts as done in
// time; what they did not do ends once.
func TestAStandstillOfTheDaemonIsBlamedOnNobody(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	writeSettings(t, home, object{"allowedOrigins": []string{"https://app.example"}})
	d := start(t, home, limits)

	answering, late, working := newPage(t, d, nil), newPage(t, d, nil), newPage(t, d, nil)
	files := newDesk(t, d, "files")
	quiet := map[transport]*conn{}
	for _, via := range transports {
		c, err := via.open(d.info, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.call("subscribe_thread", object{"threadId": working.id}, nil); err != nil {
			t.Fatal(err)
		}
		quiet[via] = c
	}
	leaving := newPage(t, d, object{"autoEndOnDisconnect": true})
	leaving.c.Close()
	upload := files.half(uploadBytes)
	newcomer := d.dial()
	if err := waitFor(patience, "the newcomer to be accepted", func() (bool, error) {
		m, err := readMetrics(d)
		return m["pedelec_ipc_connections"] == 6, err
	}); err != nil {
		t.Fatal(err)
	}
	ask := func(p *page, n int) (*callers, asked) {
		p.send("stream 500 every 100ms")
		p.await("assistant_delta")
		all := p.callAtOnce(1, "ask", func(int) string { return fmt.Sprintf(`{"n":%d,"timeoutMs":%d}`, n, toolLimit) })
		return all, p.call()
	}
	answered, request := ask(answering, 1)
	unanswered, _ := ask(late, 2)
	op := working.send("stream 100 every 100ms ; echo done")
	working.await("assistant_delta")
	download := newDesk(t, d, "large").download(downloadBytes)

	d.standStill(func() {
		answering.must(answering.c.send(fmt.Appendf(nil, `{"requestId":"x","type":"submit_tool_result","payload":{"threadId":%q,"requestId":%q,"result":"in time"}}`+"\n", answering.id, request.RequestID)))
		answering.must(newcomer.send([]byte(`{"requestId":"x","type":"ping"}` + "\n")))
		if _, err := upload.Write(make([]byte, uploadBytes/2)); err != nil {
			t.Error(err)
		}
		back := d.dial()
		answering.must(back.send(fmt.Appendf(nil, `{"requestId":"x","type":"subscribe_thread","payload":{"threadId":%q}}`+"\n", leaving.id)))
		leaving.c = back
	})

	if o := <-answered.outcomes; o.err != nil || string(o.result) != `"in time"` {
		t.Errorf("the call that was answered in time got %s, %v", o.result, o.err)
	}
	if o := <-unanswered.outcomes; codeOf(o.err) != "TOOL_TIMEOUT" {
		t.Errorf("the call that nobody answered got %s, %v", o.result, o.err)
	}
	if _, err := late.c.until(patience, func(e event) bool { return e.Status == "running" }); err != nil {
		t.Errorf("its turn does not go on: %v", err)
	}
	late.quiet("status_changed")
	for name, c := range map[string]*conn{"a newcomer": newcomer, "one that came back": leaving.c} {
		if m, err := c.next(patience); err != nil || !m.OK {
			t.Errorf("%s got %+v, %v", name, m, err)
		}
	}
	if got := readAnswer(upload); got.status != http.StatusCreated {
		t.Errorf("the upload got %+v", got)
	}
	if n, err := io.Copy(io.Discard, download.Body); err != nil || n != downloadBytes {
		t.Errorf("%d bytes of %d were downloaded, %v", n, downloadBytes, err)
	}
	if said := working.says(op); !strings.HasSuffix(said, "done") {
		t.Errorf("the turn said %q", clip([]byte(said)))
	}
	for via, c := range quiet {
		if _, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" && e.OperationID == op }); err != nil {
			t.Errorf("a subscriber over %s: %v", via, err)
		}
		if err := c.call("ping", nil, nil); err != nil {
			t.Errorf("a ping over %s: %v", via, err)
		}
	}
	var s snapshot
	if err := working.c.call("thread_snapshot", object{"threadId": leaving.id}, &s); err != nil || s.Status != "idle" {
		t.Errorf("the thread whose client came back is %s, %v", s.Status, err)
	}
	if m, err := readMetrics(d); err != nil || m["pedelec_ipc_cut_clients_total"] != 0 {
		t.Errorf("%v clients were cut, %v", m["pedelec_ipc_cut_clients_total"], err)
	}
}

// TestAStandstillInAWriteCutsNoClientThatReads stops the daemon while its writes wait
// for clients, which then take everything.
func TestAStandstillInAWriteCutsNoClientThatReads(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), limits)
	p := newPage(t, d, nil)
	gate := make(chan struct{})
	var late []*conn
	for _, via := range transports {
		c, err := via.open(d.info, func(nc *net.TCPConn) net.Conn { return newGated(nc, gate) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.call("subscribe_thread", object{"threadId": p.id}, nil); err != nil {
			t.Fatal(err)
		}
		late = append(late, c)
	}
	op := p.send("stream 350 of 20000")
	p.finish(op)
	if m, err := readMetrics(d); err != nil || m["pedelec_ipc_cut_clients_total"] != 0 {
		t.Fatalf("before the standstill %v clients were cut, %v", m["pedelec_ipc_cut_clients_total"], err)
	}
	ends := make(chan error, len(late))
	d.standStill(func() {
		close(gate)
		for _, c := range late {
			go func() {
				_, err := c.until(4*standstill, func(e event) bool { return e.Type == "operation_completed" && e.OperationID == op })
				ends <- err
			}()
		}
	})
	for range late {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if m, err := readMetrics(d); err != nil || m["pedelec_ipc_cut_clients_total"] != 0 {
		t.Errorf("%v clients were cut, %v", m["pedelec_ipc_cut_clients_total"], err)
	}
}

// TestStoppedAgentsAndClientsGoOnWhereTheyWere stops an agent and a client for a
// while. Neither is taken for dead; an agent that is stopped for longer than it may
// be silent ends its turn, once.
func TestStoppedAgentsAndClientsGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	const silence = 3 * time.Second
	d := start(t, newHome(t), "PEDELEC_DURATIONS=stop=500ms;write-timeout=1s;silence="+silence.String())
	p := newPage(t, d, nil)
	client := exec.Command(binary, "--home", d.home, "threads", "tail", "--follow", "--json", p.id)
	client.Env = cleanEnv()
	out, err := client.StdoutPipe()
	p.must(err)
	p.must(client.Start())
	t.Cleanup(func() {
		_ = client.Process.Kill()
		_ = client.Wait() // killed
	})
	heard := bufio.NewScanner(out)
	if !heard.Scan() {
		t.Fatalf("the client printed nothing: %v", heard.Err())
	}
	lines := 1

	stream := "stream 100 every 10ms ; echo done"
	op := p.send(stream)
	p.await("assistant_delta")
	pids, err := runtimePIDs(d.operator())
	p.must(err)
	if len(pids) != 1 {
		t.Fatalf("the agents are %v", pids)
	}
	p.must(syscall.Kill(pids[0], syscall.SIGSTOP))
	p.must(client.Process.Signal(syscall.SIGSTOP))
	<-time.After(silence / 2)
	p.must(syscall.Kill(pids[0], syscall.SIGCONT))
	if said := p.says(op); !strings.HasSuffix(said, "done") {
		t.Errorf("an agent that was stopped for a while said %q", clip([]byte(said)))
	}
	<-time.After(2 * time.Second) // more than a write may take
	p.must(client.Process.Signal(syscall.SIGCONT))
	journal, err := newWitness(p.id, true).journal(p.c, 0)
	p.must(err)
	for ; lines < len(journal) && heard.Scan(); lines++ {
	}
	if lines < len(journal) {
		t.Errorf("the client that was stopped has %d events of %d: %v", lines, len(journal), heard.Err())
	}

	op = p.send("stream 1 ; hang")
	p.await("assistant_delta")
	p.must(syscall.Kill(pids[0], syscall.SIGSTOP))
	events := p.finish(op)
	if code := codeOf(asError(events[len(events)-1].Err)); code != "PROVIDER_TIMEOUT" {
		t.Errorf("an agent that is stopped for long ended its turn with %s", code)
	}
	_ = syscall.Kill(pids[0], syscall.SIGCONT) // it may have been killed meanwhile
	p.must(p.c.call("prepare_thread", object{"threadId": p.id, "operationId": "heal"}, nil))
	p.finish("heal")
	if op := p.send("echo again"); p.says(op) != "again" {
		t.Error("the thread does not go on")
	}
}
