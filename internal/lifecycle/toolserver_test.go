package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// memToolServer notes what it is told; the close of what is not open it does not.
type memToolServer struct {
	mu   sync.Mutex
	told []string
	open map[string]int // number of the address, by thread
	made int
}

func (s *memToolServer) Open(threadID string, skills tool.Skills) (url, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	s.open[threadID] = s.made
	s.told = append(s.told, fmt.Sprintf("open %d with %s", s.made, skills.Tools[0].Name))
	return "http://127.0.0.1:1/mcp/" + threadID, fmt.Sprint("secret ", s.made)
}

func (s *memToolServer) Admit(threadID string, w thread.ToolWitness) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf("admit %d by %v", s.open[threadID], w))
}

func (s *memToolServer) Close(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.open[threadID]; ok {
		s.told = append(s.told, fmt.Sprint("close ", n))
		delete(s.open, threadID)
	}
}

// witness names the provider session that it speaks for.
type witness string

func (witness) Announced(context.Context, string) error { return nil }

func TestTheToolServerIsOpenWhileTheAgentsSessionIs(t *testing.T) {
	sees := func(context.Context, thread.SessionSpec) (thread.Attachment, error) {
		return thread.Attachment{Witness: witness("w")}, nil
	}
	gone := thread.Frame{Kind: thread.FrameGone, Err: fault.New(fault.ProviderRuntimeDisconnected, "gone")}
	die := func(c *memConversation) {
		c.mu.Lock()
		c.alive = false
		c.mu.Unlock()
		c.sink.Frame(gone)
		c.says(thread.Frame{Kind: thread.FrameFinished, Outcome: thread.OutcomeFailed, Err: gone.Err})
		synctest.Wait()
	}
	tests := []struct {
		name   string
		attach func(context.Context, thread.SessionSpec) (thread.Attachment, error)
		then   func(b *bench, id string, c *memConversation)
		want   string
	}{
		{"an end", sees, func(b *bench, id string, _ *memConversation) { b.end(id) }, "open 1 with paint, admit 1 by w, close 1"},
		{"a second turn", sees, func(b *bench, id string, c *memConversation) {
			c.says(finished(thread.OutcomeSuccess))
			b.send(id, "op-2", "x")
			b.conversation()
		}, "open 1 with paint, admit 1 by w"},
		{"a session that rests", sees, func(b *bench, id string, c *memConversation) {
			c.says(finished(thread.OutcomeSuccess))
			time.Sleep(DefaultDurations.Session + tick)
			synctest.Wait()
		}, "open 1 with paint, admit 1 by w, close 1"},
		{"a process that dies", sees, func(b *bench, id string, c *memConversation) {
			die(c)
			time.Sleep(DefaultDurations.Session + DefaultDurations.Linger + tick)
			synctest.Wait()
		}, "open 1 with paint, admit 1 by w, close 1"},
		{"a turn after the process died", sees, func(b *bench, id string, c *memConversation) {
			die(c)
			if _, err := b.Prepare(b.Context(), anyone, id, nil); err != nil {
				b.Fatal(err)
			}
			b.conversation()
		}, "open 1 with paint, admit 1 by w, open 2 with paint, admit 2 by w"},
		{"an agent that was not told of it", nil, func(*bench, string, *memConversation) {}, "open 1 with paint, close 1"},
		{"a session that cannot be opened", func(context.Context, thread.SessionSpec) (thread.Attachment, error) {
			return thread.Attachment{}, fault.New(fault.ProviderAuthRequired, "Log in.")
		}, func(*bench, string, *memConversation) {}, "open 1 with paint, close 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := &memToolServer{open: map[string]int{}}
			startOn(t, nil, func(c *Config) { c.ToolServer, c.CLI = server, "/home/bin/pedelec-cli" }, func(b *bench) {
				b.runtime.attach = tt.attach
				id, err := b.Create(b.Context(), anyone, thread.CreateRequest{Provider: thread.OpenCode, Skills: &tool.Skills{
					Tools: []tool.Tool{{Name: "paint", Description: "Paints.", ArgsSchema: []byte(`{}`)}},
				}})
				if err != nil {
					b.Fatal(err)
				}
				b.send(id, "op", "x")
				synctest.Wait()
				spec := b.runtime.specs[0]
				if spec.Tools.MCPURL != "http://127.0.0.1:1/mcp/"+id || spec.Tools.MCPSecret != "secret 1" {
					b.Errorf("the runtime was told of %+v", spec.Tools)
				}
				if !strings.Contains(spec.Instructions(thread.ToolsByCommand), "/home/bin/pedelec-cli --thread-id "+id+" tool-call paint") ||
					strings.Contains(spec.Instructions(thread.ToolsNative), "pedelec-cli") {
					b.Error("the instructions do not depend on the channel")
				}
				var c *memConversation
				if len(b.runtime.opened) > 0 {
					c = b.conversation()
				}
				tt.then(b, id, c)
				server.mu.Lock()
				told := slices.Clone(server.told)
				server.mu.Unlock()
				if got := strings.Join(told, ", "); got != tt.want {
					b.Errorf("the server was told %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestAThreadWithoutToolsHasNoToolServer(t *testing.T) {
	server := &memToolServer{open: map[string]int{}}
	startOn(t, nil, func(c *Config) { c.ToolServer = server }, func(b *bench) {
		id := b.create()
		b.send(id, "op", "x")
		b.conversation()
		if len(server.told) != 0 || b.runtime.specs[0].Tools != (thread.ToolAccess{}) {
			b.Errorf("the server was told %q", server.told)
		}
	})
}

func (b *bench) end(id string) {
	b.Helper()
	if err := b.End(b.Context(), anyone, id); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}
