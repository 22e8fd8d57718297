package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// errLeft says that the user left in the middle of a turn.
var errLeft = errors.New("left in the middle of a turn, which is being cancelled")

// conversation takes turns on one thread.
type conversation struct {
	client     *ipc.Client
	id         string
	sub        *subscription
	interrupts <-chan os.Signal
	lines      <-chan string // what is typed, or comes in by a pipe; nil = nothing is read
	out        *transcript
	notes      io.Writer // for what is not the agent's

	commands map[string]string // by tool name: what answers calls
	person   bool              // somebody at the terminal can be asked for an answer

	call    *openCall       // nil = none waits
	outputs chan toolOutput // of commands
	running sync.WaitGroup  // commands
}

// nextLine waits for a line that is not blank. io.EOF: the input has ended or
// the user leaves. What others do on the thread meanwhile is not shown.
func (v *conversation) nextLine() (string, error) {
	for {
		select {
		case <-v.interrupts:
			return "", io.EOF
		case line, ok := <-v.lines:
			if !ok {
				return "", io.EOF
			}
			if strings.TrimSpace(line) != "" {
				return line, nil
			}
		case ev, ok := <-v.sub.events:
			if !ok {
				return "", v.sub.err
			}
			if ev.Type == "ended" {
				return "", v.endedBySomebody()
			}
		}
	}
}

// reopen makes the thread ready for the next turn after one that failed. The
// subscription begins anew, since it would tell of our own end and resume.
func (v *conversation) reopen(ctx context.Context) error {
	if err := reopen(ctx, v.client, v.id); err != nil {
		return err
	}
	v.sub.Close()
	sub, err := subscribe(ctx, v.client, v.id, nil)
	if err != nil {
		return err
	}
	v.sub = sub
	return nil
}

// turn sends one text and returns when its operation has completed. The first
// interrupt cancels the operation; after the second, turn returns errLeft.
func (v *conversation) turn(ctx context.Context, text string) error {
	var admitted ipc.Admission
	if err := v.client.Call(ctx, "send_text", map[string]any{"threadId": v.id, "message": text}, &admitted); err != nil {
		return err
	}
	defer v.dropCall()
	interrupted := false
	cancelled := make(chan error, 1)
	for {
		select {
		case <-v.interrupts:
			if interrupted {
				return errLeft
			}
			interrupted = true
			v.dropCall()
			fmt.Fprintln(v.notes, "\nCancelling; Ctrl-C again leaves at once.")
			go func() { cancelled <- v.cancel(ctx, admitted.OperationID) }()
		case err := <-cancelled:
			if err != nil {
				return err
			}
		case line, ok := <-v.answers():
			v.typed(ctx, line, ok)
		case out := <-v.outputs:
			v.submit(ctx, out)
		case ev, ok := <-v.sub.events:
			if !ok {
				return v.sub.err
			}
			if done, err := v.take(ctx, ev, admitted.OperationID); done {
				return err
			}
		}
	}
}

// cancel asks for the end of an operation; how it ended is told by an event.
func (v *conversation) cancel(ctx context.Context, operationID string) error {
	payload := map[string]any{"threadId": v.id, "operationId": operationID}
	return v.client.Call(ctx, "cancel_operation", payload, nil)
}

// take shows an event and tells whether it ends the operation.
func (v *conversation) take(ctx context.Context, ev ipc.Event, operationID string) (done bool, err error) {
	if ev.Type == "ended" {
		return true, v.endedBySomebody()
	}
	if ev.OperationID != operationID {
		return false, nil
	}
	switch ev.Type {
	case "assistant_delta":
		v.out.delta(ev.Text)
	case "assistant_message":
		v.out.message(ev.Text, ev.Part == nil || ev.Part.Index == ev.Part.Count-1)
	case "tool_call", "status_changed":
		v.takeTool(ctx, ev)
	case "operation_completed":
		v.out.end()
		if ev.Error != nil {
			return true, ev.Error.Err()
		}
		return true, nil
	}
	return false, nil
}

func (v *conversation) endedBySomebody() error {
	return fault.New(fault.ThreadEnded, "The thread was ended by somebody; resume it with: pedelec-core threads resume "+v.id)
}

// transcript prints what an agent says. Live, it shows deltas as they come and
// then only what a complete message has more; else it prints complete messages.
type transcript struct {
	w     io.Writer
	live  bool
	begun string // what was shown of the message that is not complete
}

func (t *transcript) delta(text string) {
	if !t.live {
		return
	}
	t.begun += text
	io.WriteString(t.w, text)
}

// message prints a complete message, or one part of a long one.
func (t *transcript) message(text string, last bool) {
	if more, ok := strings.CutPrefix(t.begun, text); ok && !last {
		t.begun = more
		return
	}
	rest, ok := strings.CutPrefix(text, t.begun)
	if !ok {
		rest = "\n" + text // deltas were lost or repeated: the message is what counts
	}
	t.begun = ""
	io.WriteString(t.w, rest)
	if last && !strings.HasSuffix(text, "\n") {
		io.WriteString(t.w, "\n")
	}
}

// pause moves what comes next, written to w, off the line of a message that is
// being shown.
func (t *transcript) pause(w io.Writer) {
	if t.begun != "" {
		io.WriteString(w, "\n")
	}
}

// end closes the line of a message that never became complete.
func (t *transcript) end() {
	if t.begun != "" {
		io.WriteString(t.w, "\n")
	}
	t.begun = ""
}
