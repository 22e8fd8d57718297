package ipc

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// homeOf writes the runtime files of a server into a fresh home.
func homeOf(t testing.TB, r *rig, change ...func(*RuntimeFile)) string {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp4", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	f := NewRuntimeFile(addr)
	f.Token, f.InstanceID = testToken, "instance"
	for _, c := range change {
		c(&f)
	}
	home := t.TempDir()
	if err := f.Write(home); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestClientCallsAsTheOperator(t *testing.T) {
	r := newRig(t)
	r.settings.requireToken = true
	c, err := Dial(t.Context(), homeOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	var made ThreadRef
	if err := c.Call(t.Context(), "create_thread", map[string]any{"provider": "opencode"}, &made); err != nil {
		t.Fatal(err)
	}
	var list RuntimeList
	if err := c.Call(t.Context(), "list_runtimes", nil, &list); err != nil || len(list.Runtimes) != 1 {
		t.Fatalf("list_runtimes: %v, %v", list, err)
	}
	err = c.Call(t.Context(), "thread_snapshot", map[string]any{"threadId": "nobody"}, nil)
	if e := fault.From(err); e.Code != fault.ThreadNotFound || e.Details["threadId"] != "nobody" || e.Msg == "" {
		t.Fatalf("thread_snapshot: %v", err)
	}
}

func TestClientWithAnOriginSpeaksForAPage(t *testing.T) {
	r := newRig(t)
	c, err := Dial(t.Context(), homeOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	c.Origin, c.SDKVersion = "https://a.example", " 1.0 "
	if err := c.Call(t.Context(), "create_thread", map[string]any{"provider": "opencode"}, nil); err != nil {
		t.Fatal(err)
	}
	want := thread.Caller{Origin: "https://a.example", OriginStated: true, Token: true, SDKVersion: "1.0"}
	if got := r.threads.callers[0]; got != want {
		t.Errorf("caller %+v, want %+v", got, want)
	}
	if err := c.Call(t.Context(), "shutdown", nil, nil); !fault.Is(err, fault.IPCUnauthorized) {
		t.Errorf("shutdown: %v", err)
	}
}

func TestDialSaysThatTheDaemonIsNotRunning(t *testing.T) {
	r := newRig(t)
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := NewRuntimeFile(closed.Addr())
	_ = closed.Close()
	nobody := t.TempDir()
	if err := gone.Write(nobody); err != nil {
		t.Fatal(err)
	}
	for name, home := range map[string]string{
		"no file":          t.TempDir(),
		"nobody listens":   nobody,
		"another instance": homeOf(t, r, func(f *RuntimeFile) { f.InstanceID = "an older one" }),
	} {
		if _, err := Dial(t.Context(), home); !fault.Is(err, fault.CoreRuntimeUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Dial(t.Context(), homeOf(t, r, func(f *RuntimeFile) { f.Token = "wrong" })); !fault.Is(err, fault.IPCUnauthorized) {
		t.Errorf("wrong token: %v", err)
	}
}

// A daemon that was halted was waited for without end.
func TestDialDoesNotWaitForADaemonThatIsHalted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // the system takes the connection, and nobody ever reads it
	home := t.TempDir()
	if err := NewRuntimeFile(silent.Addr()).Write(home); err != nil {
		t.Fatal(err)
	}
	_, err = dial(t.Context(), home, 20*time.Millisecond)
	if !fault.Is(err, fault.CoreRuntimeUnavailable) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v, want that it does not answer", err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(given, home, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

func TestClientStreamsEvents(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	c, err := Dial(t.Context(), homeOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	from := uint64(1)
	s, err := c.Subscribe(t.Context(), id, &from)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Snapshot.LatestSeq != 2 || s.Replay == nil || s.Replay.FromSeq != 2 {
		t.Fatalf("snapshot %+v, replay %+v", s.Snapshot, s.Replay)
	}
	if ev, err := s.Next(t.Context()); err != nil || ev.Seq != 2 || ev.Status != "idle" {
		t.Fatalf("%+v, %v", ev, err)
	}
	waiting, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Next(waiting); !errors.Is(err, context.Canceled) {
		t.Fatalf("Next with an ended context: %v", err)
	}
	r.threads.tell(id, delta("text"))
	if ev, err := s.Next(t.Context()); err != nil || ev.Text != "text" {
		t.Fatalf("after it: %+v, %v", ev, err)
	}
	if err := r.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); !fault.Is(err, fault.CoreRuntimeUnavailable) {
		t.Fatalf("after the daemon left: %v", err)
	}
}

func TestClientSubscriptionIsRefusedLikeAnyRequest(t *testing.T) {
	r := newRig(t)
	c, err := Dial(t.Context(), homeOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), "nobody", nil); !fault.Is(err, fault.ThreadNotFound) {
		t.Fatal(err)
	}
}

func TestClientCallEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	c, err := Dial(t.Context(), homeOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	defer close(hold) // a client that closed may have closed half: its request goes on
	r.threads.hold["Snapshot"] = hold
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-r.threads.entered
		cancel()
	}()
	if err := c.Call(ctx, "thread_snapshot", map[string]any{"threadId": id}, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestClientRefusesARequestThatIsTooLarge(t *testing.T) {
	r := newRig(t)
	c, err := Dial(t.Context(), homeOf(t, r))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Call(t.Context(), "send_text", map[string]any{"message": string(make([]byte, MaxLineBytes))}, nil)
	if !fault.Is(err, fault.MessageTooLarge) {
		t.Fatal(err)
	}
}
