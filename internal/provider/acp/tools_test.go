package acp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

var (
	withMCP  = jsontext.Value(`{"loadSession":true,"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"close":{},"resume":{}}}`)
	loadMCP  = jsontext.Value(`{"loadSession":true,"mcpCapabilities":{"http":true}}`)
	oddlyMCP = jsontext.Value(`{"loadSession":true,"mcpCapabilities":{"http":"no"}}`)
)

func access(threadID, secret string) thread.ToolAccess {
	return thread.ToolAccess{MCPURL: "http://127.0.0.1:4711/mcp/" + threadID, MCPSecret: secret}
}

// byChannel are instructions that tell for which channel they are.
func byChannel(c thread.ToolChannel) string {
	return map[thread.ToolChannel]string{thread.ToolsNative: "Call functions.", thread.ToolsByCommand: "Run commands."}[c]
}

// servers returns what the agents were told of servers, by method, in order.
func (r *rig) servers() (told []string) {
	r.t.Helper()
	for _, m := range r.read() {
		var p struct {
			Servers jsontext.Value `json:"mcpServers"`
		}
		if strings.HasPrefix(m.Method, "session/") && json.Unmarshal(m.Params, &p) == nil && p.Servers != nil {
			told = append(told, strings.TrimPrefix(m.Method, "session/")+" "+string(p.Servers))
		}
	}
	return told
}

func server(threadID, secret string) string {
	return fmt.Sprintf(`[{"type":"http","name":"pedelec","url":"http://127.0.0.1:4711/mcp/%s","headers":[{"name":"Authorization","value":"Bearer %s"}]}]`, threadID, secret)
}

func TestAgentsThatCanAreToldOfTheToolServer(t *testing.T) {
	tests := []struct {
		name    string
		flavour Flavour
		caps    jsontext.Value
		tools   thread.ToolAccess
		again   string // method of the second attach
		native  bool
	}{
		{"opencode", OpenCode(), withMCP, access("t1", "s1"), "resume", true},
		{"cursor", Cursor(), loadMCP, access("t1", "s1"), "load", true},
		{"an agent without HTTP", OpenCode(), nil, access("t1", "s1"), "resume", false},
		{"an agent that says it oddly", Cursor(), oddlyMCP, access("t1", "s1"), "load", false},
		{"a thread without tools", OpenCode(), withMCP, thread.ToolAccess{}, "resume", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.flavour, knobs{Caps: tt.caps})
			spec := r.spec("t1")
			spec.Tools, spec.Instructions = tt.tools, byChannel
			a, sink := r.open(spec)
			r.run(a, sink, 1, "first")
			want := "Run commands."
			if tt.native {
				want = "Call functions."
			}
			if first := r.prompts()[0]; !strings.Contains(first, want) {
				t.Errorf("told %q", first)
			}
			if (a.Witness != nil) != tt.native {
				t.Errorf("witness %v", a.Witness)
			}
			spec.SessionID, spec.Instructed = a.SessionID, true
			if tt.native {
				spec.Tools.MCPSecret = "s2" // each session has a new one
			}
			a, sink = r.open(spec)
			r.run(a, sink, 2, "second")
			if got := r.prompts()[1]; got != "second" {
				t.Errorf("told again: %q", got)
			}
			expected := []string{"new []", tt.again + " []"}
			if tt.native {
				expected = []string{"new " + server("t1", "s1"), tt.again + " " + server("t1", "s2")}
			}
			eq(t, "servers", r.servers(), expected)
		})
	}
}

func TestOneThreadAFolderGetsTheToolServer(t *testing.T) {
	for _, f := range []Flavour{OpenCode(), Cursor()} {
		t.Run(f.Provider.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, f, knobs{Caps: withMCP})
			spec := func(id string) thread.SessionSpec {
				s := r.spec(id)
				s.Tools, s.Instructions = access(id, "secret"), byChannel
				return s
			}
			shared := f.sharesTools
			a, sinkA := r.open(spec("a"))
			r.run(a, sinkA, 1, "first")
			b, sinkB := r.open(spec("b"))
			r.run(b, sinkB, 1, "first of b")
			if a.Witness == nil || (b.Witness == nil) != shared {
				t.Errorf("witnesses %v and %v", a.Witness, b.Witness)
			}
			if got := r.prompts()[1]; strings.Contains(got, "Run commands.") != shared {
				t.Errorf("b was told %q", got)
			}
			elsewhere := spec("c")
			elsewhere.WorkspacePath = t.TempDir()
			if c, _ := r.open(elsewhere); c.Witness == nil {
				t.Error("a thread in another folder got no server")
			}
			// The one that comes back while the other is there has to change its way,
			// and is told so.
			if err := a.Conversation.Close(r.ctx); err != nil {
				t.Fatal(err)
			}
			again := spec("a")
			again.SessionID, again.Instructed = a.SessionID, true
			a, sinkA = r.open(again)
			r.run(a, sinkA, 2, "second")
			if (a.Witness == nil) != shared {
				t.Errorf("witness %v", a.Witness)
			}
			if got := r.prompts()[2]; strings.Contains(got, "Run commands.") != shared {
				t.Errorf("a was told %q", got)
			}
			r.run(a, sinkA, 3, "third")
			if got := r.prompts()[3]; got != "third" {
				t.Errorf("a was told %q", got)
			}
		})
	}
}

func TestThreadsThatComeTogetherDoNotBothGetTheToolServer(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{Caps: withMCP})
	const threads = 8
	witnesses := make(chan thread.ToolWitness, threads)
	var attaching sync.WaitGroup
	for i := range threads {
		attaching.Go(func() {
			spec := r.spec(fmt.Sprint("t", i))
			spec.Tools = access(spec.ThreadID, "secret")
			a, err := r.manager.Attach(r.ctx, spec, newCollector(t))
			if err != nil {
				t.Error(err)
			}
			witnesses <- a.Witness
		})
	}
	attaching.Wait()
	close(witnesses)
	native := 0
	for w := range witnesses {
		if w != nil {
			native++
		}
	}
	if native != 1 {
		t.Errorf("%d threads got the server", native)
	}
}

func TestInstructionsAreSentAgainWhenTheirCopyIsLost(t *testing.T) {
	r := newRig(t, OpenCode(), knobs{})
	spec := r.spec("t1")
	spec.Instructions = always("Be kind.")
	a, sink := r.open(spec)
	r.run(a, sink, 1, "first")
	if err := replaceFile(filepath.Join(r.ws, ".pedelec-runtime", "threads", "t1", instructionsFile), "Be evil."); err != nil {
		t.Fatal(err)
	}
	spec.SessionID, spec.Instructed = a.SessionID, true
	a, sink = r.open(spec)
	r.run(a, sink, 2, "second")
	if got := r.prompts()[1]; !strings.Contains(got, "Be kind.") {
		t.Errorf("told %q", got)
	}
}

// shows has the agent tell of a tool call in a session.
func (b *bench) shows(session, kind, id, members string) {
	b.Feed(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":%q,"toolCallId":%q,%s}}}`, session, kind, id, members))
}

func TestACallIsAcceptedWhenItsSessionShowsIt(t *testing.T) {
	const begun, going = "tool_call", "tool_call_update"
	type shown struct{ session, kind, id, members string }
	tests := []struct {
		name    string
		flavour Flavour
		shown   []shown
		want    bool
	}{
		{"nothing", OpenCode(), nil, false},
		{"the call", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":"pedelec_paint","status":"pending"`}}, true},
		{"a call that goes on", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":"pedelec_paint"`}, {"ses_1", going, "c1", `"status":"in_progress"`}}, true},
		{"a call that says its name late", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":"tool"`}, {"ses_1", going, "c1", `"title":"pedelec_paint"`}}, true},
		{"another tool", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":"pedelec_paint_all"`}}, false},
		{"another server", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":"other_paint"`}}, false},
		{"a call that ended", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":"pedelec_paint"`}, {"ses_1", going, "c1", `"status":"completed"`}}, false},
		{"a call that failed", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":"pedelec_paint"`}, {"ses_1", going, "c1", `"status":"failed"`}}, false},
		{"a call in another session", OpenCode(), []shown{{"ses_2", begun, "c1", `"title":"pedelec_paint"`}}, false},
		{"a call without an id", OpenCode(), []shown{{"ses_1", begun, "", `"title":"pedelec_paint"`}}, false},
		{"a title of another shape", OpenCode(), []shown{{"ses_1", begun, "c1", `"title":{"x":1}`}}, false},
		{"a title for people", Cursor(), []shown{{"ses_1", begun, "c1", `"title":"MCP: paint"`}}, true},
		{"a name in the input", Cursor(), []shown{{"ses_1", begun, "c1", `"title":"MCP","rawInput":{"toolName":"paint"}`}}, true},
		{"another name", Cursor(), []shown{{"ses_1", begun, "c1", `"title":"Read file","rawInput":{"path":"x"}`}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.flavour)
				s := b.session(newCollector(t))
				if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
					t.Fatal(err)
				}
				for _, u := range tt.shown {
					b.shows(u.session, u.kind, u.id, u.members)
				}
				begun := time.Now()
				err := s.Announced(t.Context(), "paint")
				if (err == nil) != tt.want || (err != nil && !fault.Is(err, fault.ThreadAccessDenied)) {
					t.Errorf("error %v", err)
				}
				if waited := time.Since(begun); (waited == 0) != tt.want || waited > DefaultAnnounce {
					t.Errorf("waited %v", waited)
				}
			})
		})
	}
}

func TestACallIsWaitedForAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, OpenCode())
		s := b.session(newCollector(t))
		if err := s.Announced(t.Context(), "paint"); !fault.Is(err, fault.ThreadAccessDenied) {
			t.Errorf("without a turn: %v", err)
		}
		if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
			t.Fatal(err)
		}
		const calls = 5
		results := make(chan error, calls+1)
		for range calls + 1 {
			go func() { results <- s.Announced(t.Context(), "paint") }()
		}
		for i := range calls {
			synctest.Wait() // they wait
			b.shows("ses_1", "tool_call", fmt.Sprint("c", i), `"title":"pedelec_paint"`)
		}
		accepted := 0
		for range calls + 1 {
			if err := <-results; err == nil {
				accepted++
			}
		}
		if accepted != calls {
			t.Errorf("%d of %d announced calls were accepted, of one more that came", accepted, calls)
		}

		ctx, cancel := context.WithCancel(t.Context())
		go func() { results <- s.Announced(ctx, "paint") }()
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}

		go func() { results <- s.Announced(t.Context(), "paint") }()
		synctest.Wait()
		begun := time.Now()
		b.Feed([]byte(`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`))
		if err := <-results; !fault.Is(err, fault.ThreadAccessDenied) || time.Since(begun) > 0 {
			t.Errorf("the turn's end: %v after %v", err, time.Since(begun))
		}
	})
}

func TestCallsAtOnceAreAllAcceptedWhicheverEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, OpenCode())
		s := b.session(newCollector(t))
		if err := s.StartTurn(t.Context(), thread.Turn{ID: 1, Text: "x"}); err != nil {
			t.Fatal(err)
		}
		for round := range 20 { // which one a call is taken for is left to chance
			const calls = 3
			for i := range calls {
				b.shows("ses_1", "tool_call", fmt.Sprintf("r%d-c%d", round, i), `"title":"pedelec_paint"`)
			}
			for i := range calls {
				begun := time.Now()
				if err := s.Announced(t.Context(), "paint"); err != nil || time.Since(begun) > 0 {
					t.Fatalf("round %d, call %d: %v after %v", round, i, err, time.Since(begun))
				}
				b.shows("ses_1", "tool_call_update", fmt.Sprintf("r%d-c%d", round, i), `"status":"completed"`)
			}
			if err := s.Announced(t.Context(), "paint"); !fault.Is(err, fault.ThreadAccessDenied) {
				t.Fatalf("round %d: one call too many was accepted: %v", round, err)
			}
		}
	})
}

func TestFrontendToolsNeedNoPermission(t *testing.T) {
	for name, tt := range map[string]struct {
		caps jsontext.Value
		ask  string
		want string
	}{
		"a frontend tool":             {withMCP, `{"title":"pedelec_paint","kind":"other","rawInput":{"path":"/etc/passwd"}}`, "yes"},
		"one that was not given":      {nil, `{"title":"pedelec_paint","kind":"other"}`, "no"},
		"another tool":                {withMCP, `{"title":"other_paint","kind":"other"}`, "no"},
		"a command of that name":      {withMCP, `{"title":"pedelec_paint","kind":"execute","rawInput":{"command":"pedelec_paint"}}`, "no"},
		"a title that only begins so": {withMCP, `{"title":"pedelec_paint; rm -rf /","kind":"other"}`, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, OpenCode(), knobs{Caps: tt.caps})
			spec := r.spec("t1")
			spec.Tools = access("t1", "secret")
			a, sink := r.open(spec)
			if got := words(r.run(a, sink, 1, "ask "+tt.ask)); !strings.Contains(got, `"optionId":"`+tt.want+`"`) {
				t.Errorf("got %s", got)
			}
		})
	}
}
