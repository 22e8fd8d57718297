package mcp

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

func TestToolsAreListedUnderNamesThatModelsMayWrite(t *testing.T) {
	s := newStand(t, nil)
	session := s.client(s.reach("t1"))
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	modelName := tool.ModelNames(paintTools.Tools).Model[dotted]
	if len(list.Tools) != 2 || list.Tools[0].Name != "paint" || list.Tools[1].Name != modelName {
		t.Fatalf("tools %+v", list.Tools)
	}
	if list.Tools[0].Title != "" || list.Tools[1].Title != dotted || list.Tools[1].Description != "Opens." {
		t.Errorf("tools %+v", list.Tools)
	}
	for _, one := range list.Tools {
		schema, err := json.Marshal(one.InputSchema, json.Deterministic(true))
		if err != nil || !strings.Contains(string(schema), `"type":"object"`) {
			t.Errorf("%s takes %s (%v)", one.Name, schema, err)
		}
	}
	if schema := list.Tools[1].InputSchema.(map[string]any); schema["type"] != "object" || schema["$ref"] != "#/$defs/args" {
		t.Errorf("the schema became %v", schema)
	}
	s.call(session, modelName, map[string]any{"page": 1})
	if made := s.made(); made[0].Name != dotted || made[0].ThreadID != "t1" {
		t.Errorf("called %+v", made[0])
	}
}

func TestResultsAndErrorsReachTheModel(t *testing.T) {
	s := newStand(t, nil)
	session := s.client(s.reach("t1"))
	tests := []struct {
		name   string
		result string
		err    error
		text   string
		object bool
		failed bool
	}{
		{name: "an object", result: `{"done":true}`, text: `{"done":true}`, object: true},
		{name: "an array", result: `[1,2]`, text: `[1,2]`},
		{name: "null", result: `null`, text: `null`},
		{name: "a string", result: `"<b>東京</b>"`, text: `"<b>東京</b>"`},
		{name: "an error of the page's own", result: `{"error":{"code":"NO"}}`, text: `{"error":{"code":"NO"}}`, object: true},
		{name: "a long one", result: `"` + strings.Repeat("x", 900<<10-2) + `"`, text: `"` + strings.Repeat("x", 900<<10-2) + `"`},
		{name: "a timeout", err: fault.New(fault.ToolTimeout, "The page did not answer in time."), failed: true,
			text: `{"error":{"code":"TOOL_TIMEOUT","message":"The page did not answer in time."}}`},
		{name: "arguments", err: fault.New(fault.ToolArgsInvalid, "Wrong.").With("error", "at /color"), failed: true,
			text: `{"error":{"code":"TOOL_ARGS_INVALID","message":"Wrong.","details":{"error":"at /color"}}}`},
		{name: "a failure without a code", err: context.DeadlineExceeded, failed: true,
			text: `{"error":{"code":"INTERNAL","message":"` + fault.Internal.Info().Meaning + `"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.set(func() {
				s.answer = func(context.Context, thread.ToolRequest) (jsontext.Value, error) {
					return jsontext.Value(tt.result), tt.err
				}
			})
			got := s.call(session, "paint", nil)
			if text(got) != tt.text || got.IsError != tt.failed || (got.StructuredContent != nil) != tt.object {
				t.Errorf("got %.200q, failed %v, structure %v", text(got), got.IsError, got.StructuredContent)
			}
		})
	}
	if got := s.call(session, "unknown", nil); !got.IsError || !strings.Contains(text(got), "TOOL_NOT_FOUND") {
		t.Errorf("an unknown tool: %+v", got)
	}
	for _, r := range s.made() {
		if string(r.Args) != "{}" {
			t.Errorf("no arguments became %s", r.Args)
		}
	}
}

func TestEveryCallHasAnIDOfItsOwn(t *testing.T) {
	s := newStand(t, nil)
	url, secret := s.openThread("t1")
	const sessions, each = 4, 5
	var calls sync.WaitGroup
	for range sessions {
		session := s.client(url, secret, nil)
		for range each {
			calls.Go(func() {
				if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "paint", Arguments: map[string]any{}}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	calls.Wait()
	var ids []string
	for _, r := range s.made() {
		ids = append(ids, r.CallID)
	}
	slices.Sort(ids)
	if unique := len(slices.Compact(slices.Clone(ids))); unique != sessions*each || ids[0] == "" {
		t.Errorf("%d calls have %d ids: %q", sessions*each, unique, ids)
	}
}

func TestOnlyCallsThatTheThreadsConversationAnnouncedAreMade(t *testing.T) {
	s := newStand(t, nil)
	url, secret := s.manager.Open("t1", paintTools)
	session := s.client(url, secret, nil)
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Error(err) // agents look before their session is ready
	}
	if got := s.call(session, "paint", nil); !got.IsError || !strings.Contains(text(got), "THREAD_ACCESS_DENIED") {
		t.Errorf("before anybody was admitted: %q", text(got))
	}
	s.manager.Admit("t1", s)
	s.set(func() { s.refusal = fault.New(fault.ThreadAccessDenied, "Not announced.") })
	if got := s.call(session, "paint", nil); !got.IsError || !strings.Contains(text(got), "Not announced.") {
		t.Errorf("not announced: %q", text(got))
	}
	if len(s.made()) != 0 {
		t.Fatalf("the thread got %+v", s.made())
	}
	s.set(func() { s.refusal = nil })
	if got := s.call(session, "paint", map[string]any{"color": "red"}); got.IsError {
		t.Errorf("announced: %q", text(got))
	}
	s.set(func() {
		if !slices.Equal(s.asked, []string{"paint", "paint"}) {
			t.Errorf("the witness was asked for %q", s.asked)
		}
	})
}

func TestACallThatWaitsGivesSignsOfLife(t *testing.T) {
	s := newStand(t, func(d *Durations) { d.Progress = time.Millisecond })
	const enough = 5 // as many as come in 75 s
	signs := make(chan *sdk.ProgressNotificationParams, 1000)
	url, secret := s.openThread("t1")
	session := s.client(url, secret, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		select {
		case signs <- r.Params:
		default:
		}
	}})
	release := make(chan struct{})
	s.set(func() {
		s.answer = func(ctx context.Context, _ thread.ToolRequest) (jsontext.Value, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return jsontext.Value(`"late"`), ctx.Err()
		}
	})
	params := &sdk.CallToolParams{Name: "paint", Arguments: map[string]any{}}
	params.SetProgressToken("tok")
	done := make(chan string, 1)
	go func() {
		got, err := session.CallTool(t.Context(), params)
		if err != nil {
			t.Error(err)
			close(done)
			return
		}
		done <- text(got)
	}()
	last := -1.0
	for range enough {
		sign := within(t, signs, "a sign of life")
		if sign.ProgressToken != "tok" || sign.Progress <= last || sign.Message == "" {
			t.Errorf("after %v came %+v", last, sign)
		}
		last = sign.Progress
	}
	close(release)
	if got := within(t, done, "the answer"); got != `"late"` {
		t.Errorf("got %q", got)
	}
}

func TestWhoeverStopsWaitingIsForgottenAlone(t *testing.T) {
	for name, leave := range map[string]func(*stand, *sdk.ClientSession, context.CancelFunc){
		"a cancelled request":    func(_ *stand, _ *sdk.ClientSession, cancel context.CancelFunc) { cancel() },
		"a session that ends":    func(_ *stand, c *sdk.ClientSession, cancel context.CancelFunc) { cancel(); _ = c.Close() },
		"an address that ends":   func(s *stand, _ *sdk.ClientSession, _ context.CancelFunc) { s.manager.Close("t1") },
		"connections that break": func(s *stand, _ *sdk.ClientSession, _ context.CancelFunc) { s.server.CloseClientConnections() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, nil)
			url, secret := s.openThread("t1")
			_, otherSecret := s.openThread("t2")
			leaver, stayer := s.client(url, secret, nil), s.client(s.server.URL+"/mcp/t2", otherSecret, nil)
			begun, forgotten := make(chan struct{}), make(chan struct{})
			s.set(func() {
				s.answer = func(ctx context.Context, r thread.ToolRequest) (jsontext.Value, error) {
					if r.ThreadID == "t2" {
						return jsontext.Value(`"here"`), nil
					}
					close(begun)
					<-ctx.Done()
					close(forgotten)
					return nil, ctx.Err()
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = leaver.CallTool(ctx, &sdk.CallToolParams{Name: "paint", Arguments: map[string]any{}}) // it was left
			}()
			within(t, begun, "the call")
			leave(s, leaver, cancel)
			within(t, forgotten, "the end of its waiting")
			cancel()
			within(t, done, "the client's return")
			if name == "connections that break" {
				stayer = s.client(s.server.URL+"/mcp/t2", otherSecret, nil)
			}
			if got := s.call(stayer, "paint", nil); text(got) != `"here"` {
				t.Errorf("the other thread's call: %q", text(got))
			}
		})
	}
}
