package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestTranscriptShowsEachTextOnce(t *testing.T) {
	type part struct {
		delta string // or
		text  string
		last  bool
	}
	for name, c := range map[string]struct {
		live  bool
		parts []part
		want  string
	}{
		"a pipe gets messages only":       {false, []part{{delta: "he"}, {text: "hello", last: true}}, "hello\n"},
		"a terminal gets pieces":          {true, []part{{delta: "he"}, {delta: "llo"}, {text: "hello", last: true}}, "hello\n"},
		"what was missed comes at last":   {true, []part{{delta: "he"}, {text: "hello", last: true}}, "hello\n"},
		"other text is shown whole":       {true, []part{{delta: "heLL"}, {text: "hello", last: true}}, "heLL\nhello\n"},
		"a message without pieces":        {true, []part{{text: "hello", last: true}}, "hello\n"},
		"a line end is not doubled":       {true, []part{{text: "hello\n", last: true}}, "hello\n"},
		"a long message in parts":         {true, []part{{delta: "abcd"}, {text: "ab"}, {text: "cd", last: true}}, "abcd\n"},
		"a long message in parts, unseen": {false, []part{{text: "ab"}, {text: "cd", last: true}}, "abcd\n"},
		"a message that breaks off":       {true, []part{{delta: "he"}}, "he\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tr := &transcript{w: &out, live: c.live}
			for _, p := range c.parts {
				if p.delta != "" {
					tr.delta(p.delta)
				} else {
					tr.message(p.text, p.last)
				}
			}
			tr.end()
			if out.String() != c.want {
				t.Errorf("printed %q, want %q", out.String(), c.want)
			}
		})
	}
}

func TestOneInterruptCancelsTheTurn(t *testing.T) {
	talk, interrupts := newConversation(t)
	talk.out.w = onFirstWrite(func() { interrupts <- os.Interrupt })
	err := talk.turn(t.Context(), "stream 100000 every 5ms")
	if !fault.Is(err, fault.OperationCancelled) {
		t.Fatalf("the turn ended with %v, want OPERATION_CANCELLED", err)
	}
	if err := talk.turn(t.Context(), "echo again"); err != nil {
		t.Errorf("the next turn: %v", err)
	}
}

func TestTwoInterruptsLeaveAtOnce(t *testing.T) {
	talk, interrupts := newConversation(t)
	talk.out.w = onFirstWrite(func() {
		interrupts <- os.Interrupt
		interrupts <- os.Interrupt
	})
	err := talk.turn(t.Context(), "echo begun ; hang-hard")
	if !errors.Is(err, errLeft) {
		t.Fatalf("the turn ended with %v, want errLeft", err)
	}
}

func TestAConversationGoesOnAfterATurnThatFailed(t *testing.T) {
	talk, _ := newConversation(t)
	err := talk.turn(t.Context(), "fail no luck")
	if !fault.Is(err, fault.ProviderRequestFailed) {
		t.Fatalf("the turn ended with %v, want PROVIDER_REQUEST_FAILED", err)
	}
	if err := talk.reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := talk.turn(t.Context(), "echo fine again"); err != nil {
		t.Errorf("the next turn: %v", err)
	}
}

func TestAConversationEndsWithItsThread(t *testing.T) {
	talk, _ := newConversation(t)
	if err := talk.client.Call(t.Context(), "end_thread", threadPayload(talk.id), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := talk.nextLine(); !fault.Is(err, fault.ThreadEnded) {
		t.Errorf("at the prompt: %v, want THREAD_ENDED", err)
	}
}

// newConversation starts a daemon and begins a conversation with the scripted
// agent.
func newConversation(t *testing.T) (*conversation, chan<- os.Signal) {
	t.Helper()
	return newConversationWith(t, chatFlags{})
}

// newConversationWith is newConversation with more flags than the workspace.
func newConversationWith(t *testing.T, f chatFlags) (*conversation, chan<- os.Signal) {
	t.Helper()
	d := newTestStage(t)
	client, err := d.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.workspace = d.project
	id, err := (&app{stderr: io.Discard}).openChat(t.Context(), client, f)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := subscribe(t.Context(), client, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	interrupts := make(chan os.Signal, 2)
	talk := &conversation{client: client, id: id, sub: sub, interrupts: interrupts, notes: io.Discard,
		out: &transcript{w: io.Discard, live: true}, outputs: make(chan toolOutput)}
	t.Cleanup(func() { talk.sub.Close() })
	return talk, interrupts
}

// newTestStage returns a stage on which the test binary is the program.
func newTestStage(t *testing.T) *stage {
	t.Helper()
	program, err := exec.LookPath("pedelec-core")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStage(program, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if err := s.cleanUp(nil); err != nil {
			t.Error(err)
		}
	})
	return s
}

// onFirstWrite returns a writer that calls f at its first write.
func onFirstWrite(f func()) io.Writer { return writerFunc(sync.OnceFunc(f)) }

type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
