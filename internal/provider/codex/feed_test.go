package codex

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// blind is a sink that only counts.
type blind struct{ frames, ends int }

func (b *blind) Frame(f thread.Frame) {
	b.frames++
	if f.Kind == thread.FrameFinished {
		b.ends++
	}
}

// running returns a runtime with the turn "turn" in the conversation "thread".
func running(sink thread.Sink) *Runtime {
	r := newRuntime(quick(), provider.Link{
		Write: func(context.Context, []byte) error { return nil }, Post: func([]byte) error { return nil },
		Changed: func() {}, Log: zerolog.Nop(), Redactor: &fault.Redactor{},
	})
	s := &session{r: r, Seat: provider.Seat{ID: "thread", ThreadID: "t", Out: provider.NewOutlet(sink)}, tools: thread.ModelNames([]thread.Tool{{Name: "add"}})}
	r.Taken[s.ID] = s
	begun, err := s.begin(thread.Turn{ID: 1})
	if err != nil {
		panic(err)
	}
	s.take(begun, "turn")
	return r
}

// The thread was attached to another process while this one still resumed its
// conversation.
func TestAConversationThatIsResumedAfterItsThreadHasLeftIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []string
		r := running(&blind{})
		r.link.Write = func(_ context.Context, line []byte) error {
			written = append(written, string(line))
			return nil
		}
		r.conn = jsonrpc.New(jsonrpc.Config{Write: r.link.Write, Post: r.link.Post, Handler: r})
		spec := thread.SessionSpec{ThreadID: "moved", SessionID: "conversation"}
		if _, err := r.Attach(t.Context(), spec, &blind{}); !fault.Is(err, fault.ProviderTimeout) {
			t.Fatal(err)
		}
		r.Detach("moved")
		r.tasks.Wait() // nobody answers
		written = nil
		r.Feed([]byte(`{"id":1,"result":{"thread":{"id":"conversation"}}}`))
		synctest.Wait()
		if len(written) != 1 || !strings.Contains(written[0], `"thread/archive"`) {
			t.Errorf("written %q", written)
		}
		r.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Over."))
	})
}

// A process that has a conversation and refuses to open it once more, for want of a
// login perhaps, still has it, and the lock on it.
func TestAConversationThatIsHeldIsLetGoThoughItsResumeWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []string
		r := running(&blind{})
		r.link.Write = func(_ context.Context, line []byte) error {
			written = append(written, string(line))
			return nil
		}
		r.conn = jsonrpc.New(jsonrpc.Config{Write: r.link.Write, Post: r.link.Post, Handler: r})
		spec := thread.SessionSpec{ThreadID: "t2", SessionID: "conversation"}
		attach := func(answer string) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = r.Attach(t.Context(), spec, &blind{}) // its outcome shows in what is held
			}()
			synctest.Wait()
			r.Feed([]byte(answer))
			<-done
		}
		attach(`{"id":1,"result":{"thread":{"id":"conversation"}}}`)
		attach(`{"id":2,"error":{"code":-32603,"message":"not now"}}`)
		written = nil
		r.Detach("t2")
		synctest.Wait()
		if len(written) != 1 || !strings.Contains(written[0], `"thread/archive"`) {
			t.Errorf("written %q", written)
		}
		r.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Over."))
		r.tasks.Wait()
	})
}

// recorded returns the lines of recorded conversations that the agent wrote, as if they
// were about the session and the turn of running.
func recorded(f *testing.F) (lines [][]byte) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	threads, turns := regexp.MustCompile(`"threadId":"[^"]*"`), regexp.MustCompile(`("turnId":|"turn":\{"id":)"[^"]*"`)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var r struct {
				Dir string         `json:"dir"`
				Msg jsontext.Value `json:"msg"`
			}
			if err := json.Unmarshal(line, &r); err != nil || r.Dir != "out" {
				continue // ours, or a list of another kind
			}
			msg := threads.ReplaceAll(r.Msg, []byte(`"threadId":"thread"`))
			lines = append(lines, turns.ReplaceAll(msg, []byte(`$1"turn"`)))
		}
	}
	return lines
}

func FuzzFeed(f *testing.F) {
	for _, line := range recorded(f) {
		f.Add(line)
	}
	for _, line := range []string{
		`{"method":"item/agentMessage/delta","params":{"threadId":"thread","turnId":"turn","itemId":"i","delta":"x"}}`,
		`{"method":"item/completed","params":{"threadId":"thread","turnId":"turn","item":{"type":"agentMessage","id":"i","text":"x"}}}`,
		`{"method":"turn/completed","params":{"threadId":"thread","turn":{"id":"turn","status":"failed","error":{"message":"m","codexErrorInfo":{"x":{"httpStatusCode":429}}}}}}`,
		`{"method":"thread/tokenUsage/updated","params":{"threadId":"thread","turnId":"turn","tokenUsage":{"total":{"totalTokens":12}}}}`,
		`{"id":0,"method":"item/tool/call","params":{"threadId":"thread","turnId":"turn","callId":"c","tool":"add","arguments":{}}}`,
		`{"id":1,"method":"item/commandExecution/requestApproval","params":{}}`,
		`{"id":1,"result":{}}`, `{"method":"turn/started","params":{"threadId":"thread","turn":{"id":"other"}}}`, `[]`, ``,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		sink := &blind{}
		r := running(sink)
		r.Feed(line)
		r.Skipped(line, line)
		r.Gone(fault.New(fault.ProviderRuntimeDisconnected, "Over."))
		if sink.ends != 1 {
			t.Errorf("%d terminal frames after %q", sink.ends, line)
		}
	})
}

func BenchmarkDelta(b *testing.B) {
	line := []byte(`{"method":"item/agentMessage/delta","params":{"threadId":"thread","turnId":"turn","itemId":"msg_1","delta":"a few words"},"emittedAtMs":1796058121626}`)
	b.Run("fed", func(b *testing.B) {
		r := running(&blind{})
		b.ReportAllocs()
		for b.Loop() {
			r.Feed(line)
		}
	})
	b.Run("baseline-decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jsonrpc.Decode(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}
