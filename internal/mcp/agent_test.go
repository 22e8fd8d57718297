package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/lifecycle"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/acp"
	"github.com/pedelec/pedelec-core/internal/provider/scripted"
	"github.com/pedelec/pedelec-core/internal/store"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// whole is everything between a page and a real agent process: threads, store,
// runtime, tool server.
type whole struct {
	*testing.T
	threads *lifecycle.Service
}

func newWhole(t *testing.T) *whole {
	home := t.TempDir()
	s := store.New(filepath.Join(home, "core.db"))
	s.InstanceID = "test"
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	starter := proc.New(s.KV(store.Processes), "test", zerolog.Nop())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{agentEnv: "1", scripted.StateEnv: t.TempDir(), "GORACE": "atexit_sleep_ms=0"}
	providers := provider.New(provider.Config{
		Starter:  starter,
		Drivers:  []provider.Driver{acp.OpenCode().Driver()},
		Override: func(thread.Provider) provider.Override { return provider.Override{Command: []string{self}, Env: env} },
		HomeDir:  home,
	})
	tools := New(Config{Durations: Durations{Progress: 5 * time.Millisecond, Idle: time.Hour, IO: 10 * time.Second}})
	mux := http.NewServeMux()
	mux.Handle(Route, tools)
	server := httptest.NewServer(mux)
	w := &whole{T: t}
	w.threads = lifecycle.New(lifecycle.Config{
		Store: s, Runtimes: providers, Workspaces: folders{}, Profiles: narrow{}, ToolServer: tools,
		Encode: encode, Instance: "test", Log: zerolog.Nop(),
	})
	tools.Threads, tools.BaseURL = w.threads, server.URL
	t.Cleanup(func() {
		ctx := context.Background()
		w.threads.Drain(ctx)
		if err := w.threads.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := providers.Close(ctx); err != nil {
			t.Error(err)
		}
		tools.Shutdown()
		server.Close()
		starter.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// encode writes only what a page does something with.
func encode(dst []byte, _ string, ev *thread.Event) []byte {
	switch ev.Kind {
	case thread.EventToolCall:
		return fmt.Appendf(dst, "call %s %s", ev.RequestID, ev.Args)
	case thread.EventAssistantMessage:
		return fmt.Appendf(dst, "text %s", ev.Text)
	case thread.EventOperationCompleted:
		return fmt.Appendf(dst, "done %v %v", ev.Success, ev.Error)
	}
	return append(dst, "other"...)
}

type folders struct{}

func (folders) CreateManaged(string) (string, func(), error) { panic("all tests bring a folder") }
func (folders) CreateCustom(path, _, _ string) (canonical string, keep, undo func(), err error) {
	return path, func() {}, func() {}, nil
}
func (folders) Reopen(string) error { return nil }
func (folders) PrivateDir(path, id string) (string, error) {
	dir := filepath.Join(path, ".pedelec-runtime", "threads", id)
	return dir, os.MkdirAll(dir, 0o700)
}

type narrow struct{}

func (narrow) EffortArgs(thread.Provider, thread.Effort) ([]string, error) { return nil, nil }
func (narrow) Permission(thread.Provider) thread.Permission                { return thread.PermitWorkspace }

func (w *whole) thread(folder string) (id string) {
	w.Helper()
	id, err := w.threads.Create(w.Context(), thread.Caller{}, thread.CreateRequest{Provider: thread.OpenCode, WorkspacePath: &folder, Skills: &tool.Skills{
		Guidance: strings.Repeat("Be kind. ", 200<<10/9),
		Tools:    []tool.Tool{{Name: "paint.it", Description: "Paints.", ArgsSchema: jsontext.Value(`{"properties":{"n":{"type":"integer"}}}`)}},
	}})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// page sends a text and answers tool calls with "painted" and their arguments until
// the turn is over. It returns what the agent said.
func (w *whole) page(id, text string) (said string) {
	w.Helper()
	wake := make(chan struct{}, 1)
	feed, err := w.threads.Subscribe(w.Context(), thread.Caller{}, id, nil, wake)
	if err != nil {
		w.Fatal(err)
	}
	defer feed.Close()
	if _, err := w.threads.SendText(w.Context(), thread.Caller{}, id, text, nil); err != nil {
		w.Fatal(err)
	}
	var texts []string
	for {
		lines, last, err := feed.Take(1 << 20)
		if err != nil {
			w.Fatal(err)
		}
		for _, line := range lines {
			kind, rest, _ := strings.Cut(string(line), " ")
			switch kind {
			case "text":
				texts = append(texts, rest)
			case "call":
				requestID, args, _ := strings.Cut(rest, " ")
				result := jsontext.Value(fmt.Sprintf(`{"painted":%s}`, args))
				if err := w.threads.SubmitToolResult(w.Context(), thread.Caller{}, id, requestID, result); err != nil {
					w.Error(err)
				}
			case "done":
				if rest != "true <nil>" {
					w.Errorf("the turn ended %s", rest)
				}
				return strings.Join(texts, "\n")
			}
		}
		feed.Written(last)
		if len(lines) == 0 {
			within(w.T, wake, "news")
		}
	}
}

func TestARealAgentCallsThePage(t *testing.T) {
	w := newWhole(t)
	id := w.thread(t.TempDir())
	name := tool.ModelNames([]tool.Tool{{Name: "paint.it"}}).Model["paint.it"]
	tests := []struct {
		name, script, want string
	}{
		{"by the application's name", `call paint.it {"n":1}`, `{"painted":{"n":1}}`},
		{"by the model's name", "call " + name + ` {"n":1}`, `{"painted":{"n":1}}`},
		{"with wrong arguments", `call paint.it {"n":"x"}`, `tool error: {"error":{"code":"TOOL_ARGS_INVALID"`},
		{"many at once", `call-parallel 10 paint.it`, "{\"painted\":{\"n\":1}}\n{\"painted\":{\"n\":2}}"},
		{"equal ones at once", `call-parallel 3 paint.it {"n":7}`, "{\"painted\":{\"n\":7}}\n{\"painted\":{\"n\":7}}\n{\"painted\":{\"n\":7}}"},
		{"without showing it", `call-silent paint.it {"n":1}`, `tool error: {"error":{"code":"THREAD_ACCESS_DENIED"`},
		{"with no command told", `cli paint.it {"n":1}`, "tool error: the instructions tell no command for paint.it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := w.page(id, tt.script); !strings.HasPrefix(got, tt.want) {
				t.Errorf("said %q, want %q", got, tt.want)
			}
		})
	}
}

func TestASessionCannotCallTheToolsOfAnotherInItsFolder(t *testing.T) {
	w := newWhole(t)
	folder := t.TempDir()
	first, second := w.thread(folder), w.thread(folder)
	if got := w.page(first, `call paint.it {"n":1}`); got != `{"painted":{"n":1}}` {
		t.Errorf("the first said %q", got)
	}
	name := tool.ModelNames([]tool.Tool{{Name: "paint.it"}}).Model["paint.it"]
	if got := w.page(second, "call "+name+` {"n":2}`); !strings.HasPrefix(got, `tool error: {"error":{"code":"THREAD_ACCESS_DENIED"`) {
		t.Errorf("the second said %q", got)
	}
	if got := w.page(second, `cli-spec paint.it`); strings.Contains(got, "tell no command") {
		t.Errorf("the second was told no other way: %q", got)
	}
	if err := w.threads.End(t.Context(), thread.Caller{}, first); err != nil {
		t.Fatal(err)
	}
	third := w.thread(folder)
	if got := w.page(third, "call "+name+` {"n":3}`); !strings.HasPrefix(got, "tool error: ") {
		t.Errorf("beside the second, the third said %q", got)
	}
}
