//go:build linux

package proc

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestAFrameGoesInAndComesBack(t *testing.T) {
	f := newFixture(t)
	f.CloseWait = patience
	p := f.child(t, "echo")
	if err := p.Write(t.Context(), []byte(`{"frame":"hello"}`)); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, p.frames); got != "hello" {
		t.Errorf("got %q", got)
	}
	p.Stop(nil)
	if e := p.Exit(); e.Code != 0 || !e.Stopped || e.Cause != nil {
		t.Errorf("exit %+v, want status 0 after closed stdin", e)
	}
	f.mustBeEmpty(t)
}

func TestAllOfARuntimeIsGoneAfter(t *testing.T) {
	const whole = "ignore-term,group,session,hang"
	tests := []struct {
		name  string
		knobs string
		end   func(*Process)
		code  int
	}{
		{"stop of one that ignores closed stdin and TERM", whole, func(p *Process) { p.Stop(nil) }, -1},
		{"kill", whole, (*Process).Kill, -1},
		{"its own exit", "group,session,exit:3", func(p *Process) { <-p.Done() }, 3},
		{"its crash", "group,session,hang", func(p *Process) {
			_ = unix.Kill(p.PID, unix.SIGKILL)
			<-p.Done()
		}, -1},
		{"closed output", "group,session,close-stdout,ignore-term,hang", func(p *Process) { p.Stop(nil) }, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			p := f.child(t, tt.knobs)
			inGroup, outside := p.pid(t), p.pid(t)
			tt.end(p.Process)
			for _, pid := range []int{p.PID, inGroup, outside} {
				if alive(pid) {
					t.Errorf("process %d is alive", pid)
				}
			}
			if e := p.Exit(); e.Code != tt.code {
				t.Errorf("exit %+v, want code %d", e, tt.code)
			}
			f.mustBeEmpty(t)
		})
	}
}

func TestTheLadderIsWithinItsTimes(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "ignore-term,group,session,hang")
	p.pid(t)
	p.pid(t)
	before := time.Now()
	p.Stop(nil)
	took := time.Since(before)
	if floor := f.CloseWait + f.TermWait; took < floor {
		t.Errorf("stopped after %v, before the ladder's %v: a step was left out", took, floor)
	}
	if took > f.CloseWait+f.TermWait+patience/4 {
		t.Errorf("stop took %v", took)
	}
}

func TestSomethingHiddenDelaysByTheDrainWaitOnly(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "hidden,exit:0")
	hidden := p.pid(t)
	defer func() { _ = unix.Kill(hidden, unix.SIGKILL); awaitDead(t, hidden) }()
	receive(t, p.Done())
	if !alive(hidden) {
		t.Error("a process without our mark was killed")
	}
	f.mustBeEmpty(t)
}

func TestGoodbyeComesBeforeClosedInput(t *testing.T) {
	f := newFixture(t)
	f.CloseWait = patience
	p := f.child(t, "echo")
	var said error
	p.Stop(func(ctx context.Context) { said = p.Write(ctx, []byte(`{"frame":"bye"}`)) })
	if said != nil {
		t.Fatal(said)
	}
	if got := receive(t, p.frames); got != "bye" {
		t.Errorf("got %q", got)
	}
	if e := p.Exit(); e.Code != 0 {
		t.Errorf("exit %+v: the goodbye was cut off", e)
	}
}

func TestGoodbyeIsBounded(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "echo")
	p.Stop(func(ctx context.Context) { <-ctx.Done() })
	f.mustBeEmpty(t)
}

func TestTheLadderAsksBeforeItKills(t *testing.T) {
	f := newFixture(t)
	f.TermWait = patience
	p := f.child(t, "frame:up,hang")
	receive(t, p.frames)
	p.Stop(nil)
	if e := p.Exit(); e.Text != "signal: terminated" {
		t.Errorf("exit %+v, want an end by TERM", e)
	}
}

func TestKillCutsAStopShort(t *testing.T) {
	f := newFixture(t)
	f.CloseWait, f.TermWait = patience, patience
	p := f.child(t, "ignore-term,frame:deaf,hang")
	receive(t, p.frames)
	stopped := make(chan struct{})
	go func() { p.Stop(nil); close(stopped) }()
	p.Kill()
	receive(t, stopped)
	if e := p.Exit(); e.Text != "signal: killed" || !e.Stopped {
		t.Errorf("exit %+v", e)
	}
}

func TestAProcessThatDoesNotDieIsToldAndKeptInTheLedger(t *testing.T) {
	f := newFixture(t)
	f.KillWait = 20 * time.Millisecond
	p := f.child(t, "ignore-term,frame:deaf,hang")
	receive(t, p.frames) // from here on TERM does not end it
	if err := fault.Arm("proc.kill.before=error"); err != nil {
		t.Fatal(err)
	}
	defer fault.Arm("")
	p.Stop(nil)
	if e := p.Exit(); e.Code != -1 || e.Text != "does not die" {
		t.Errorf("exit %+v", e)
	}
	if f.ledger.size() != 1 {
		t.Error("the next start of the daemon will not look for it")
	}
	_ = unix.Kill(p.PID, unix.SIGKILL)
	awaitDead(t, p.PID)
}

func TestStopsShareOneStop(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "ignore-term,hang")
	ended := make(chan struct{})
	for range 5 {
		go func() { p.Stop(nil); ended <- struct{}{} }()
	}
	for range 5 {
		receive(t, ended)
	}
}

func TestStrayLinesHurtNothing(t *testing.T) {
	f := newFixture(t)
	f.FrameLimit = 1 << 20
	p := f.child(t, "banner,frame:one,oversize:3,split,partial")
	receive(t, p.Done())
	close(p.frames)
	close(p.strays)
	var frames, strays []string
	for frame := range p.frames {
		frames = append(frames, frame)
	}
	for s := range p.strays {
		strays = append(strays, s.Kind.String())
	}
	if want := []string{"one", "€", "unterminated"}; !slices.Equal(frames, want) {
		t.Errorf("frames %q, want %q", frames, want)
	}
	if want := []string{"not_object", "not_object", "oversize"}; !slices.Equal(strays, want) {
		t.Errorf("strays %q, want %q", strays, want)
	}
}

func TestALineOf17MiBIsSkipped(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "oversize:17,frame:after")
	if s := receive(t, p.strays); s.Kind != Oversize || s.Bytes != 17<<20+int64(len(`{"text":""}`)) || len(s.Head) != StrayPart || !strings.HasSuffix(string(s.Tail), `x"}`) {
		t.Errorf("stray %v of %d bytes", s.Kind, s.Bytes)
	}
	if got := receive(t, p.frames); got != "after" {
		t.Errorf("got %q", got)
	}
}

func TestAFloodOnStderrDoesNotHoldFramesUp(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "flood,frame:after")
	if got := receive(t, p.frames); got != "after" {
		t.Errorf("got %q", got)
	}
	receive(t, p.Done())
	if tail := p.StderrTail(4 << 10); len(tail) > 4<<10 || !strings.Contains(tail, "the end of the flood ü\n") {
		t.Errorf("tail of %d bytes ends in %q", len(tail), tail[max(0, len(tail)-40):])
	}
}

func TestARuntimeThatNeverReads(t *testing.T) {
	t.Run("is given up after the write timeout", func(t *testing.T) {
		f := newFixture(t)
		f.WriteTimeout = 50 * time.Millisecond
		p := f.child(t, "ignore-term,hang")
		err := p.Write(t.Context(), []byte(`{"fill":"`+strings.Repeat("x", 1<<20)+`"}`))
		if !fault.Is(err, fault.ProviderRuntimeDisconnected) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
		receive(t, p.Done())
		if e := p.Exit(); !errors.Is(e.Cause, os.ErrDeadlineExceeded) || e.Stopped {
			t.Errorf("exit %+v, want a cause", e)
		}
		if err := p.Write(t.Context(), []byte(`{}`)); !fault.Is(err, fault.ProviderRuntimeDisconnected) {
			t.Errorf("write after the end: %v", err)
		}
	})
	t.Run("fills a bounded queue", func(t *testing.T) {
		f := newFixture(t)
		p := f.child(t, "ignore-term,hang")
		big := []byte(`{"fill":"` + strings.Repeat("x", 1<<20) + `"}`)
		var err error
		for range writeQueue + 2 { // one is in the writer's hand
			if err = p.Post(big[:100]); err == nil {
				err = p.Post(big)
			}
			if err != nil {
				break
			}
		}
		if !fault.Is(err, fault.Overloaded) {
			t.Errorf("post: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Kill()
		if err := p.Write(ctx, []byte(`{}`)); !fault.Is(err, fault.ProviderRuntimeDisconnected) {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("lets a writer go whose context ends", func(t *testing.T) {
		f := newFixture(t)
		p := f.child(t, "ignore-term,hang")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := p.Write(ctx, []byte(`{"fill":"`+strings.Repeat("x", 1<<20)+`"}`))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
	})
}

func TestAWriteToARuntimeThatLeavesIsNoCauseOfItsEnd(t *testing.T) {
	f := newFixture(t)
	f.CloseWait = patience
	p := f.child(t, "exit:3")
	var err error
	for err == nil { // until the pipe is broken, or the exit was seen
		err = p.Write(t.Context(), []byte(`{}`))
	}
	receive(t, p.Done())
	if e := p.Exit(); e.Code != 3 || e.Cause != nil {
		t.Errorf("exit %+v", e)
	}
}

func TestEveryPostedFrameIsReadBeforeTheEnd(t *testing.T) {
	f := newFixture(t)
	f.CloseWait = patience
	p := f.child(t, "count")
	frame := []byte(`{"n":"` + strings.Repeat("x", 5000) + `"}`)
	for range 100 {
		if err := p.Post(frame); err != nil {
			t.Fatal(err)
		}
	}
	p.Stop(nil)
	if got, want := p.pid(t), 100*(len(frame)+1); got != want {
		t.Errorf("the child read %d bytes, want %d", got, want)
	}
}

func TestAFrameOfTwoLinesIsRefused(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "echo")
	if err := p.Post([]byte("{\n}")); !fault.Is(err, fault.Internal) {
		t.Errorf("post: %v", err)
	}
}

func TestAnEndThatNobodyAskedForIsAWarningWithItsExitStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		knobs string
		end   func(*Process)
		want  string
	}{
		"crash":       {"hang", func(p *Process) { _ = unix.Kill(p.PID, unix.SIGSEGV) }, "warn: signal: segmentation fault"},
		"kill -9":     {"hang", func(p *Process) { _ = unix.Kill(p.PID, unix.SIGKILL) }, "warn: signal: killed"},
		"failure":     {"exit:3", func(*Process) {}, "warn: exit status 3"},
		"clean exit":  {"exit:0", func(*Process) {}, "warn: exit status 0"},
		"our request": {"hang", (*Process).Kill, "info: signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer // written by one goroutine, before Done
			f := newFixture(t)
			f.Log = zerolog.New(&log)
			p := f.child(t, tt.knobs)
			tt.end(p.Process)
			receive(t, p.Done())
			lines := bytes.Split(bytes.TrimSpace(log.Bytes()), []byte("\n"))
			var told struct {
				Level   string `json:"level"`
				Exit    string `json:"exit"`
				Message string `json:"message"`
			}
			if err := json.Unmarshal(lines[len(lines)-1], &told); err != nil {
				t.Fatal(err)
			}
			got, _, _ := strings.Cut(told.Level+": "+told.Exit, " (core dumped)")
			if got != tt.want {
				t.Errorf("the log says %q, want %q", got, tt.want)
			}
			if next := strings.Contains(told.Message, "the next turn starts it again"); next != (told.Level == "warn") {
				t.Errorf("the log says %q", told.Message)
			}
		})
	}
}

func TestClosedOutputEndsARuntime(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "close-stdout,ignore-term,hang")
	receive(t, p.Done())
	if e := p.Exit(); !fault.Is(e.Cause, fault.ProviderRuntimeDisconnected) {
		t.Errorf("exit %+v", e)
	}
}

func TestAPanicOfTheReceiverEndsItsRuntimeOnly(t *testing.T) {
	f := newFixture(t)
	other := f.child(t, "echo")
	p, err := f.Start(t.Context(), Spec{
		Provider: "fake",
		Path:     os.Args[0],
		Env:      []string{childEnv + "=frame:x,hang"},
		OnFrame:  func(*Process, []byte) { panic("receiver") },
	})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, p.Done())
	if e := p.Exit(); !fault.Is(e.Cause, fault.Internal) {
		t.Errorf("exit %+v", e)
	}
	if err := other.Write(t.Context(), []byte(`{"frame":"alive"}`)); err != nil {
		t.Error(err)
	}
}

func TestChildHasNoTerminalAndOwnGroup(t *testing.T) {
	f := newFixture(t)
	p := f.child(t, "echo")
	if sid, err := unix.Getsid(p.PID); err != nil || sid != p.PID {
		t.Errorf("session %d, %v; want %d", sid, err, p.PID)
	}
	if p.ResidentBytes() <= 0 {
		t.Error("resident memory unknown")
	}
}
