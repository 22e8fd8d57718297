package ipc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// shutDown begins a shutdown that may take as long as it likes, and returns when
// nobody is let in any more.
func (r *rig) shutDown() <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.server.Shutdown(context.Background()) }()
	for !r.server.leaving.Load() {
		runtime.Gosched()
	}
	return done
}

// all reads what comes until the connection ends.
func all(read func() (string, error)) string {
	var said []string
	for {
		line, err := read()
		if err != nil {
			return strings.Join(said, "\n")
		}
		said = append(said, line)
	}
}

func TestShutdownAnswersWhatWaitsUnread(t *testing.T) {
	const lines, padding = 100, 20_000 // together more than is read ahead
	r := newRig(t)
	id := r.createThread(t)
	release := r.hold("Snapshot")
	p := r.dial(t)
	p.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 1)
	for i := range lines {
		p.send(fmt.Sprintf(`{"requestId":"behind%d","type":"ping","payload":%q}`, i, strings.Repeat("x", padding)))
	}
	done := r.shutDown()
	release()
	said := all(p.read)
	for i := range lines {
		if !strings.Contains(said, fmt.Sprintf(`"requestId":"behind%d","ok":true`, i)) {
			t.Fatalf("request %d of %d was not answered", i, lines)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShutdownRefusesWhatAWebSocketSendsMeanwhile(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	release := r.hold("Snapshot")
	p := r.dialWeb(t, native())
	p.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 1)
	c := r.socketOf(p)
	done := r.shutDown()
	for !c.leaving() {
		runtime.Gosched()
	}
	p.send(snapshotOf("late", id))
	hasAll(t, p.line(), `"requestId":"late","ok":false`, `"CORE_RUNTIME_UNAVAILABLE"`)
	release()
	hasAll(t, all(p.read), `"requestId":"slow","ok":true`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAForcedShutdownAnswersWhatItGivesUp(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	r.hold("Snapshot")
	tcp, web := r.dial(t), r.dialWeb(t, native())
	tcp.send(snapshotOf("slow", id), snapshotOf("behind", id))
	web.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 2)
	// It has no place in its thread's lane before the other has begun.
	c := r.socketOf(web)
	where := c.lanes.enter(id)
	web.send(snapshotOf("behind", id))
	for received := 0; received < 2; received, _ = c.progress() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	forced := make(chan error, 1)
	go func() { forced <- r.server.Shutdown(ctx) }()
	for name, read := range map[string]func() (string, error){"TCP": tcp.read, "a WebSocket": web.read} {
		said := all(read)
		for _, want := range []string{`"requestId":"slow","ok":false`, `"requestId":"behind","ok":false`, `"CORE_RUNTIME_UNAVAILABLE"`} {
			if !strings.Contains(said, want) {
				t.Errorf("over %s there is no %s in\n%s", name, want, said)
			}
		}
	}
	where.leave()
	if err := <-forced; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestAShutdownLetsGoOfTheFolderPicker(t *testing.T) {
	r := newRig(t)
	r.settings.pickHold = make(chan struct{}) // for ever
	r.settings.picking = make(chan struct{}, 1)
	p := r.dial(t)
	p.send(`{"requestId":"pick","type":"pick_workspace_folder","callerOrigin":"https://a.example"}`)
	<-r.settings.picking
	done := r.shutDown()
	hasAll(t, p.line(), `"requestId":"pick"`, `"CORE_RUNTIME_UNAVAILABLE"`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAClientThatNeverPausesDoesNotHoldUpAShutdown(t *testing.T) {
	r := newRig(t)
	p := r.dial(t)
	p.send(ping("first"))
	p.line()
	asked := make(chan int)
	go func() { // ends with the connection
		n := 0
		for ; ; n++ {
			if _, err := p.conn.Write([]byte(ping("again") + "\n")); err != nil {
				break
			}
			if _, err := p.read(); err != nil {
				break
			}
		}
		asked <- n
	}()
	began := time.Now()
	if err := <-r.shutDown(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 2*restLimit {
		t.Errorf("it took %v", took)
	}
	t.Logf("%d requests were answered meanwhile", <-asked)
}

func TestAPingBehindAShutdownSaysThatTheDaemonLeaves(t *testing.T) {
	r := newRig(t)
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"s","type":"shutdown","authToken":%q}`, testToken))
	hasAll(t, p.line(), `"requestId":"s"`, `"ok":true`)
	p.send(`{"requestId":"p","type":"ping"}`)
	hasAll(t, p.line(), `"requestId":"p"`, `"leaving":true`)
}
