//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/websocket"

	"github.com/pedelec/pedelec-core/internal/store"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// asker is a connection on which requests are open when the daemon is told to
// leave.
type asker struct {
	*conn
	name string
	open map[string]string // requests that were sent and not answered yet, and what they ask for
}

// ask sends a request and waits for nothing.
func (a *asker) ask(t testing.TB, kind string, payload any, more envelope) {
	t.Helper()
	b, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	more.Type, more.Payload = kind, b
	id, line, err := a.request(more)
	if err == nil {
		err = a.send(line)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.open[id] = kind
}

// rest reads all that comes until the daemon closes. It returns the events and how
// often each kind of answer came.
func (a *asker) rest(t testing.TB, answers map[string]int) []event {
	t.Helper()
	events := a.events
	for {
		m, err := a.next(patience)
		if errors.Is(err, errClosed) && errors.Is(a.readErr, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("%s: %v, %v", a.name, err, a.readErr)
			break
		}
		if m.isEvent() {
			e, err := parseEvent(m.Event)
			if err != nil {
				t.Error(err)
			}
			events = append(events, e)
			continue
		}
		kind, asked := a.open[m.RequestID]
		if !asked {
			t.Errorf("%s: an answer to nothing, or a second one: %+v", a.name, m)
		}
		delete(a.open, m.RequestID)
		code := "ok"
		if m.Err != nil {
			code = m.Err.Code
		}
		answers[kind+" "+code]++
	}
	for _, kind := range a.open {
		t.Errorf("%s: %s was not answered", a.name, kind)
	}
	return events
}

// busyDaemon is a daemon with all kinds of open requests, and what its clients hold.
type busyDaemon struct {
	*daemon
	t       *testing.T
	askers  []*asker
	running []*leavingThread
	resting []string       // threads on temporary workspaces that nobody has asked for since they were made
	picker  int            // process of the folder picker
	upload  net.Conn       // half of an upload
	taking  *http.Response // a download that nobody reads
}

// leavingThread is a thread with a turn, and who hears of it.
type leavingThread struct {
	id      string
	managed bool
	heard   *asker
}

// Shape of the load.
const (
	busyThreads    = 24 // with a turn each
	restingThreads = 40
	pipelined      = 40  // requests that are sent right before the signal, on each of two connections
	longLine       = 100 // large requests that wait behind one
)

// newBusyDaemon starts a daemon and puts the load on it.
func newBusyDaemon(t *testing.T, flags ...string) *busyDaemon {
	t.Helper()
	home := newHome(t)
	pickerFile := filepath.Join(filepath.Dir(home), "picker")
	writeSettings(t, home, object{"pickerCommand": []string{"/bin/sh", "-c", "echo $$ > " + pickerFile + ".new; mv " + pickerFile + ".new " + pickerFile + "; exec sleep 600"}})
	d := launchCommand(t, home, append([]string{binary, "serve", "--home", home, "--log-level", "debug"}, flags...))
	if err := d.await(); err != nil {
		t.Fatal(err)
	}
	b := &busyDaemon{daemon: d, t: t}
	maker := d.dial()
	for range restingThreads {
		b.resting = append(b.resting, newThread(t, maker))
	}
	maker.Close()
	b.turns()
	b.transfers()
	b.waits()
	if err := waitFor(patience, "the folder picker", func() (bool, error) {
		text, err := os.ReadFile(pickerFile)
		if err != nil {
			return false, nil
		}
		b.picker, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// tcp and web open connections whose requests are counted.
func (b *busyDaemon) tcp(name string) *asker { return b.add(name, b.dial()) }

func (b *busyDaemon) web(name string) *asker {
	b.t.Helper()
	c, err := openWeb(b.info.HTTPEndpoint, b.info.Token)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return b.add(name, c)
}

func (b *busyDaemon) add(name string, c *conn) *asker {
	a := &asker{conn: c, name: name, open: map[string]string{}}
	b.askers = append(b.askers, a)
	return a
}

// turns begins turns that do not end, on two agents, one of which ignores that it
// shall go, heard over both transports.
func (b *busyDaemon) turns() {
	t := b.t
	t.Helper()
	tcp, web := b.tcp("subscriber"), b.web("web subscriber")
	for i := range busyThreads {
		th := &leavingThread{managed: i%2 == 0, heard: tcp}
		if i%4 < 2 {
			th.heard = web
		}
		payload := object{"provider": []string{"opencode", "cursor"}[i%2], "skills": demoTools}
		if !th.managed {
			payload["workspace"] = object{"path": filepath.Join(filepath.Dir(b.home), "work", fmt.Sprint(i))}
		}
		var made snapshot
		b.must(th.heard.call("create_thread", payload, &made))
		th.id = made.ThreadID
		b.must(th.heard.call("subscribe_thread", object{"threadId": th.id}, nil))
		text := "stream 1 ; hang-hard"
		if i < 2 {
			text = "ignore-term ; grandchild ; " + text
		}
		b.must(th.heard.call("send_text", object{"threadId": th.id, "message": text}, nil))
		b.running = append(b.running, th)
	}
	for _, a := range []*asker{tcp, web} {
		working := map[string]bool{}
		_, err := a.until(patience, func(e event) bool {
			if e.Type == "assistant_delta" {
				working[e.ThreadID] = true
			}
			return len(working) == busyThreads/2
		})
		b.must(err)
	}
}

func (b *busyDaemon) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// transfers begins an upload and a download that stand still.
func (b *busyDaemon) transfers() {
	t := b.t
	t.Helper()
	b.upload = newDesk(t, b.daemon, "up").half(uploadBytes)
	b.taking = newDesk(t, b.daemon, "down").download(downloadBytes)
}

// waits opens requests that wait for somebody: for a page, the user, an agent.
func (b *busyDaemon) waits() {
	t := b.t
	t.Helper()
	origin := "https://app.example"
	b.tcp("picker").ask(t, "pick_workspace_folder", object{}, envelope{CallerOrigin: &origin})

	dialer := websocket.Dialer{HandshakeTimeout: patience}
	ws, res, err := dialer.Dial("ws://"+b.info.HTTPEndpoint+"/v1/ipc", http.Header{"Origin": {"https://stranger.example"}})
	b.must(err)
	_ = res.Body.Close()
	page := newConn(&webConn{Conn: ws.NetConn(), ws: ws})
	t.Cleanup(page.Close)
	b.add("stranger", page).ask(t, "request_approval", object{}, envelope{})

	tools := b.tcp("tool caller")
	tools.ask(t, "tool_call", object{"threadId": b.running[2].id, "toolName": "ask", "args": object{}}, envelope{})
	tools.ask(t, "thread_snapshot", object{"threadId": b.running[3].id}, envelope{}) // behind the one that waits
	behind := b.tcp("long line")                                                     // more than the daemon reads ahead
	behind.ask(t, "tool_call", object{"threadId": b.running[2].id, "toolName": "ask", "args": object{}}, envelope{})
	for range longLine {
		behind.ask(t, "thread_snapshot", object{"threadId": b.running[3].id, "padding": strings.Repeat("x", 20_000)}, envelope{})
	}
	for i := range 3 {
		b.web("web tool caller").ask(t, "tool_call", object{"threadId": b.running[2].id, "toolName": "ask", "args": object{"n": i}}, envelope{})
	}
	b.tcp("canceller").ask(t, "cancel_operation", object{"threadId": b.running[4].id}, envelope{})
	b.web("web canceller").ask(t, "cancel_operation", object{"threadId": b.running[5].id}, envelope{})
	b.tcp("ender").ask(t, "end_thread", object{"threadId": b.running[6].id}, envelope{})
	b.web("web ender").ask(t, "end_thread", object{"threadId": b.running[7].id}, envelope{})
	b.must(waitFor(patience, "the waiting requests to be with their threads", func() (bool, error) {
		c := b.dial()
		defer c.Close()
		var call, end struct {
			Pending *struct{} `json:"pendingToolRequest"`
			Status  string    `json:"status"`
		}
		err := errors.Join(
			c.call("thread_snapshot", object{"threadId": b.running[2].id}, &call),
			c.call("thread_snapshot", object{"threadId": b.running[7].id}, &end),
		)
		return call.Pending != nil && end.Status == "stopping", err
	}))
}

// lastMinute sends requests right before the daemon is told.
func (b *busyDaemon) lastMinute() {
	for _, a := range []*asker{b.tcp("last minute"), b.web("web last minute")} {
		for i := range pipelined {
			switch i % 4 {
			case 0:
				a.ask(b.t, "create_thread", object{"provider": "opencode"}, envelope{})
			case 1:
				a.ask(b.t, "send_text", object{"threadId": b.running[i%busyThreads].id, "message": "no"}, envelope{})
			case 2:
				a.ask(b.t, "thread_snapshot", object{"threadId": b.running[i%busyThreads].id}, envelope{})
			case 3:
				a.ask(b.t, "ping", object{}, envelope{})
			}
			if a.name == "web last minute" && i == 30 {
				break // as many as may be in flight
			}
		}
	}
}

// TestEveryOpenRequestIsAnsweredWhenTheDaemonLeaves tells a busy daemon to leave in
// each of the ways that there are: whoever asked is answered, whoever listens hears
// the ends, and nothing is left.
func TestEveryOpenRequestIsAnsweredWhenTheDaemonLeaves(t *testing.T) {
	t.Run("TERM", func(t *testing.T) {
		t.Parallel()
		b := newBusyDaemon(t)
		b.leaves(func() { b.signal(syscall.SIGTERM) })
	})
	t.Run("INT", func(t *testing.T) {
		t.Parallel()
		b := newBusyDaemon(t)
		b.leaves(func() { b.signal(syscall.SIGINT) })
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		b := newBusyDaemon(t)
		stop := exec.Command(binary, "stop", "--home", b.home)
		b.leaves(func() { b.must(stop.Start()) })
		if err := stop.Wait(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Run("parent", func(t *testing.T) {
		t.Parallel()
		parent := exec.Command(binary, "agent", "--scripted", "acp") // lives as long as its input
		input, err := parent.StdinPipe()
		if err == nil {
			err = parent.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		b := newBusyDaemon(t, "--parent-pid", strconv.Itoa(parent.Process.Pid))
		b.leaves(func() {
			_ = input.Close()
			b.must(parent.Wait())
		})
	})
}

// leaves tells the daemon to leave and checks all that is promised.
func (b *busyDaemon) leaves(tell func()) {
	t := b.t
	t.Helper()
	b.lastMinute()
	began := time.Now()
	tell()
	answers := map[string]int{}
	heard := map[string][]event{}
	for _, a := range b.askers {
		for _, e := range a.rest(t, answers) {
			heard[e.ThreadID] = append(heard[e.ThreadID], e)
		}
	}
	answered := time.Since(began)
	code := b.code()
	took := time.Since(began)
	t.Logf("answered after %v, gone after %v: %v", answered.Round(time.Millisecond), took.Round(time.Millisecond), answers)
	if code != 0 {
		t.Errorf("it left with %d", code)
	}
	if took > leaveLimit {
		t.Errorf("it took %v", took)
	}
	for i, th := range b.running {
		th.wantEnds(t, i, heard[th.id])
	}
	if got := readAnswer(b.upload); got.status == 0 || got.status == http.StatusCreated {
		t.Errorf("the upload was answered with %+v", got)
	}
	if n, err := io.Copy(io.Discard, b.taking.Body); err == nil {
		t.Errorf("the download of %d bytes is told to be whole", n)
	}
	if err := syscall.Kill(b.picker, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the folder picker, process %d, is left", b.picker)
	}
	nothingLeft(t, b.home)
	b.wantResting()
	b.wantCleanStart()
}

// wantEnds checks what a subscriber heard of a thread before its connection closed.
func (th *leavingThread) wantEnds(t *testing.T, i int, events []event) {
	t.Helper()
	code := ""
	for _, e := range events {
		if e.Type == "operation_completed" {
			code = codeOf(asError(e.Err))
		}
	}
	if code != "OPERATION_INTERRUPTED" && !(i == 6 || i == 7) {
		t.Errorf("thread %d: the operation ended with %q; heard %s", i, code, kinds(events))
	}
	last := event{}
	if len(events) > 0 {
		last = events[len(events)-1]
	}
	ended := last.Type == "status_changed" && last.Status == "ended"
	if wantEnded := th.managed || i == 7; ended != wantEnded {
		t.Errorf("thread %d, managed %v, ended %v; heard %s", i, th.managed, ended, kinds(events))
	}
}

// wantResting looks into the database for the threads that nobody had asked for: they
// have ended with the daemon, too.
func (b *busyDaemon) wantResting() {
	b.t.Helper()
	s := store.New(filepath.Join(b.home, "core.db"))
	b.must(s.Open())
	for _, id := range b.resting {
		if loaded, err := s.Load(id); err != nil || loaded.Record.Status != thread.Ended {
			b.t.Errorf("a thread that rested is %v, %v", loaded.Record.Status, err)
		}
	}
	b.must(s.Close())
}

// wantCleanStart starts the next daemon, which has nothing to clear and nothing to
// settle.
func (b *busyDaemon) wantCleanStart() {
	t := b.t
	t.Helper()
	next := start(t, b.home)
	c := next.dial()
	for i, th := range b.running {
		var s snapshot
		if err := c.call("thread_snapshot", object{"threadId": th.id}, &s); err != nil {
			t.Error(err)
			continue
		}
		want := "idle"
		if th.managed || i == 7 {
			want = "ended"
		}
		if s.Status != want {
			t.Errorf("thread %d is %s after the restart, want %s", i, s.Status, want)
		}
	}
	if strings.Contains(next.said(), "cleared what an earlier run") {
		t.Error("the next daemon had to clear up")
	}
}
