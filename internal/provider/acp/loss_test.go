package acp

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestADeathInATurnFailsThatTurnOnceAndTellsEverySession(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	a1, s1 := r.open(r.spec("t1"))
	a2, s2 := r.open(r.spec("t2"))
	r.start(a1, 1, "say m half\ndie")
	frames := s1.wait("the end", func(fs []thread.Frame) bool { return strings.Contains(words(fs), "failed") })
	if got := words(frames); got != "d:half | gone PROVIDER_RUNTIME_DISCONNECTED | failed PROVIDER_RUNTIME_DISCONNECTED" {
		t.Error(got)
	}
	e := frames[len(frames)-1].Err
	eq(t, "details", e.Details, map[string]any{
		"provider": "opencode", "exitStatus": "exit status 7", "stderr": "fake: dying, api_key=[redacted]\n",
	})
	idle := s2.wait("the loss", func(fs []thread.Frame) bool { return words(fs) != "" })
	if got := words(idle); got != "gone PROVIDER_RUNTIME_DISCONNECTED" {
		t.Errorf("the idle session got %s", got)
	}
	for _, a := range []thread.Attachment{a1, a2} {
		if a.Conversation.Alive() {
			t.Error("a conversation outlived its process")
		}
		err := a.Conversation.StartTurn(r.ctx, thread.Turn{ID: 9, Text: "x"})
		if !fault.Is(err, fault.ProviderRuntimeDisconnected) {
			t.Errorf("a turn on it: %v", err)
		}
		if err := a.Conversation.Close(r.ctx); err != nil {
			t.Error(err)
		}
	}
	spec := r.spec("t2")
	spec.SessionID = a2.SessionID
	b, sink := r.open(spec)
	if b.Fresh {
		t.Error("the conversation was not continued")
	}
	if got := words(r.run(b, sink, 2, "say m on")); got != "d:on | m:on | u:12 | ok" {
		t.Error(got)
	}
	if n := len(s1.all()); n != len(frames) {
		t.Errorf("%d frames came after the end", n-len(frames))
	}
}

func TestAKillBetweenTurnsIsInvisibleToTheNext(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	a, sink := r.open(r.spec("t1"))
	r.run(a, sink, 1, "say m one")
	pid := r.pids()[0]
	p, err := os.FindProcess(pid)
	if err == nil {
		err = errors.Join(p.Kill(), p.Release())
	}
	if err != nil {
		t.Fatal(err)
	}
	sink.wait("the loss", func(fs []thread.Frame) bool { return strings.Contains(words(fs), "gone") })
	spec := r.spec("t1")
	spec.SessionID = a.SessionID
	b, sink := r.open(spec)
	if got := words(r.run(b, sink, 2, "say m two")); got != "d:two | m:two | u:12 | ok" || b.Fresh || r.pids()[0] == pid {
		t.Errorf("%s, %+v", got, b)
	}
}

func TestManyThreadsWaitForOneStart(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if _, err := r.manager.Attach(r.ctx, r.spec("t"+itoa(uint64(i))), newCollector(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	starts := slices.DeleteFunc(r.methods(), func(m string) bool { return m != "initialize" })
	if infos := r.manager.Runtimes(); len(infos) != 1 || infos[0].Sessions != 10 || len(starts) != 1 {
		t.Errorf("%d starts, runtimes %+v", len(starts), infos)
	}
}

func TestAProgramThatKeepsFailingIsRefusedAtOnce(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{ExitAtStart: 3})
	for range 2 { // the second try comes without a wait
		e := r.refuse(r.spec("t1"), fault.ProviderRuntimeStartFailed)
		if e.Details["exitStatus"] != "exit status 3" || e.Details["stderr"] != "fake: cannot start, token=[redacted]\n" {
			t.Errorf("details %v", e.Details)
		}
	}
	begin := time.Now()
	e := r.refuse(r.spec("t1"), fault.ProviderRuntimeStartFailed)
	if e.Details["retryAfterMs"] == nil || e.Details["cause"] == nil || e.Details["stderr"] != "fake: cannot start, token=[redacted]\n" {
		t.Errorf("details %v", e.Details)
	}
	if time.Since(begin) > time.Second {
		t.Error("the refusal was not at once")
	}
	if len(r.manager.Runtimes()) != 0 {
		t.Error("a process is left")
	}
}

func TestAHandshakeThatFailsLeavesNoProcess(t *testing.T) {
	tests := []struct {
		name  string
		knobs knobs
	}{
		{"no answer", knobs{HangInit: true, IgnoreTerm: true, Noise: true}},
		{"another version", knobs{InitVersion: 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := OpenCode()
			f.Handshake = 2 * time.Second
			r := newRig(t, f, tt.knobs)
			r.refuse(r.spec("t1"), fault.ProviderRuntimeStartFailed)
			if len(r.manager.Runtimes()) != 0 {
				t.Error("a process is left")
			}
			r.set(func(k *knobs) { *k = knobs{Dir: r.dir} })
			r.open(r.spec("t1"))
		})
	}
}

func TestASilentAgentIsGivenUpAfterThreeRequests(t *testing.T) {
	f := OpenCode()
	f.Open, f.Silence = 600*time.Millisecond, 1500*time.Millisecond
	var log bytes.Buffer
	r := newRig(t, f, knobs{HangResume: true}, func(c *provider.Config) { c.Log = zerolog.New(zerolog.SyncWriter(&log)) })
	a, sink := r.open(r.spec("t1"))
	r.start(a, 1, "say m x\nhang")
	sink.sawText("x")
	spec := r.spec("t2")
	spec.SessionID = "ses_any"
	for range 3 {
		r.refuse(spec, fault.ProviderTimeout)
	}
	frames := sink.finished(1)
	e := frames[len(frames)-1].Err
	if e == nil || e.Code != fault.ProviderRuntimeDisconnected || !strings.Contains(e.Msg, "did not answer") {
		t.Errorf("the turn ended with %v", e)
	}
	r.open(r.spec("t3"))
	if err := r.manager.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), `"level":"warn"`); n != 1 || !strings.Contains(log.String(), "did not answer any more and was stopped") {
		t.Errorf("the log has %d warnings:\n%s", n, &log)
	}
}

func TestAnIdleProcessStops(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{}, func(c *provider.Config) { c.IdleStop = 50 * time.Millisecond })
	a, sink := r.open(r.spec("t1"))
	r.run(a, sink, 1, "say m x")
	pid := r.pids()[0]
	if err := a.Conversation.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.until("the idle stop", func() bool { return len(r.pids()) == 0 })
	for range 3 { // an idle stop is no failure: nothing is refused
		spec := r.spec("t1")
		spec.SessionID = a.SessionID
		b, _ := r.open(spec)
		if b.Fresh || r.pids()[0] == pid {
			t.Errorf("%+v", b)
		}
		_ = b.Conversation.Close(r.ctx)
		r.until("the idle stop", func() bool { return len(r.pids()) == 0 })
	}
}

// TestAnAttachThatWasGivenUpDoesNotKeepTheProcessForEver gives up the attach of a turn
// that was cancelled before it began: the process once counted it as one that still
// opened, and never stopped again.
func TestAnAttachThatWasGivenUpDoesNotKeepTheProcessForEver(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{}, func(c *provider.Config) { c.IdleStop = 50 * time.Millisecond })
	a, _ := r.open(r.spec("t1"))
	givenUp, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := r.manager.Attach(givenUp, r.spec("t2"), newCollector(t)); err == nil {
		t.Fatal("it was attached all the same")
	}
	if err := a.Conversation.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.until("the idle stop", func() bool { return len(r.pids()) == 0 })
}

func TestCloseStopsEverythingAndRefusesWhatComesAfter(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{IgnoreTerm: true})
	a, sink := r.open(r.spec("t1"))
	r.start(a, 1, "say m x\nhang")
	sink.sawText("x")
	if err := r.manager.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	if got := words(sink.finished(1)); !strings.HasSuffix(got, "failed PROVIDER_RUNTIME_DISCONNECTED") {
		t.Error(got)
	}
	if len(r.manager.Runtimes()) != 0 {
		t.Error("a process is left")
	}
	r.refuse(r.spec("t2"), fault.CoreRuntimeUnavailable)
}

func TestATurnThatIgnoresItsCancelIsFencedOff(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	stuck, stuckSink := r.open(r.spec("stuck"))
	busy, busySink := r.open(r.spec("busy"))
	idle, idleSink := r.open(r.spec("idle"))
	r.run(idle, idleSink, 1, "say m x")
	first := r.pids()[0]
	r.start(busy, 1, "say m busy\ngate\nsay n done")
	busySink.sawText("busy")
	r.start(stuck, 1, "say m stuck\nlatecancel")
	stuckSink.sawText("stuck")
	if err := stuck.Conversation.Cancel(r.ctx, 1); err != nil {
		t.Fatal(err)
	}
	stuck.Conversation.Abandon(1)
	stuck.Conversation.Abandon(1)
	if stuck.Conversation.Alive() || idle.Conversation.Alive() || !busy.Conversation.Alive() {
		t.Error("only the busy conversation shall live on")
	}

	// Its thread waits for it.
	spec := r.spec("stuck")
	spec.SessionID = stuck.SessionID
	ctx, cancel := context.WithTimeout(r.ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := r.manager.Attach(ctx, spec, newCollector(t)); !fault.Is(err, fault.ProviderTimeout) {
		t.Errorf("attach while the old prompt is open: %v", err)
	}
	// Other threads get a second process.
	fresh, freshSink := r.open(r.spec("fresh"))
	if got := words(r.run(fresh, freshSink, 1, "say m x")); got != "d:x | m:x | u:12 | ok" {
		t.Error(got)
	}
	if pids := r.pids(); len(pids) != 2 {
		t.Fatalf("processes %v", pids)
	}
	attached := make(chan thread.Attachment, 1)
	sink := newCollector(t)
	go func() {
		a, err := r.manager.Attach(r.ctx, spec, sink)
		if err != nil {
			t.Error(err)
		}
		attached <- a
	}()
	// The old prompt is answered when the busy thread's next one lets it; its last
	// turn over, the first process goes.
	r.openGateIn(first)
	if got := words(busySink.finished(1)); !strings.HasSuffix(got, "m:done | u:12 | ok") {
		t.Error(got)
	}
	a := <-attached
	if a.Fresh || a.SessionID != stuck.SessionID {
		t.Errorf("attached %+v", a)
	}
	if got := words(r.run(a, sink, 2, "say m again")); got != "d:again | m:again | u:12 | ok" {
		t.Error(got)
	}
	r.until("the first process's end", func() bool { return !slices.Contains(r.pids(), first) })
	for _, f := range stuckSink.all() {
		if f.Kind == thread.FrameFinished || f.Text == "too late" {
			t.Errorf("the fenced turn still spoke: %+v", f)
		}
	}
}

func TestAFencedTurnAloneGivesWayToANewProcess(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{IgnoreTerm: true})
	a, sink := r.open(r.spec("t1"))
	first := r.pids()[0]
	r.start(a, 1, "say m x\nhang")
	sink.sawText("x")
	_ = a.Conversation.Cancel(r.ctx, 1)
	a.Conversation.Abandon(1)
	for id := uint64(2); id < 5; id++ { // our own stops are no failures
		spec := r.spec("t1")
		spec.SessionID = a.SessionID
		var next *collector
		a, next = r.open(spec)
		if a.Fresh || r.pids()[0] == first {
			t.Errorf("attached %+v", a)
		}
		r.start(a, id, "say m y\nhang")
		next.sawText("y")
		_ = a.Conversation.Cancel(r.ctx, id)
		a.Conversation.Abandon(id)
	}
}

func TestAProgramThatRunsIsUsedAlthoughItsFileIsGone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, OpenCode(), knobs{})
	r.program = filepath.Join(t.TempDir(), "agent.exe")
	if err := os.Link(self, r.program); err != nil {
		t.Skip(err) // another file system
	}
	r.open(r.spec("t1"))
	if err := os.Remove(r.program); err != nil {
		t.Fatal(err)
	}
	r.open(r.spec("t2"))
	spec := r.spec("t3")
	spec.Permission = thread.PermitReadOnly // needs a process of its own
	r.refuse(spec, fault.ProviderNotAvailable)
}

func TestADeathShortlyAfterTheStartCountsAsAFailure(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	for id := uint64(1); id <= 2; id++ {
		a, sink := r.open(r.spec("t1"))
		r.start(a, id, "die")
		sink.finished(id)
	}
	e := r.refuse(r.spec("t1"), fault.ProviderRuntimeStartFailed)
	if e.Details["exitStatus"] != "exit status 7" || e.Details["cause"] == nil {
		t.Errorf("details %v", e.Details)
	}
}

func TestASessionThatWasJustOpenedStillGetsItsTurn(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{IgnoreTerm: true})
	stuck, stuckSink := r.open(r.spec("stuck"))
	first := r.pids()[0]
	r.start(stuck, 1, "say m x\nhang")
	stuckSink.sawText("x")
	opened, sink := r.open(r.spec("opened"))
	stuck.Conversation.Abandon(1)
	if got := words(r.run(opened, sink, 1, "say m y")); got != "d:y | m:y | u:12 | ok" {
		t.Error(got)
	}
	if opened.Conversation.Alive() {
		t.Error("a second turn would begin beside the fenced one")
	}
	r.until("the process's end", func() bool { return !slices.Contains(r.pids(), first) })
}

// TestATurnThatIsGivenUpWhileItsTextIsWrittenLeavesNoQuarantine lets the write fail after
// that: there is no answer that could end the quarantine.
func TestATurnThatIsGivenUpWhileItsTextIsWrittenLeavesNoQuarantine(t *testing.T) {
	b := newBench(t, OpenCode())
	s := b.session(newCollector(t))
	b.conn = jsonrpc.New(jsonrpc.Config{Handler: b.Runtime, Write: func(context.Context, []byte) error {
		s.Abandon(1)
		return fault.New(fault.ProviderRuntimeDisconnected, "The agent does not take its input.")
	}})
	if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); !fault.Is(err, fault.ProviderRuntimeDisconnected) {
		t.Errorf("turn: %v", err)
	}
	if got := b.Load(); got != (provider.Load{}) || b.Settled("t") != nil {
		t.Errorf("load %+v", got)
	}
}
