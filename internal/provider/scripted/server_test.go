package scripted

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const testSecret = "a-secret-of-the-test"

// toolHost is an application's tools behind a real server: paint answers with its
// arguments, fail with an error, wait when its caller is gone.
func toolHost(t *testing.T) (url string, left <-chan struct{}) {
	gone := make(chan struct{}, 1)
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	add := func(name string, do func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return do(ctx, r), nil
		})
	}
	textual := func(text string) []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: text}} }
	add("paint", func(_ context.Context, r *mcp.CallToolRequest) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: textual("painted " + string(r.Params.Arguments))}
	})
	add("fail", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
		return &mcp.CallToolResult{IsError: true, Content: textual("no paint")}
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) *mcp.CallToolResult {
		<-ctx.Done()
		gone <- struct{}{}
		return &mcp.CallToolResult{}
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+testSecret {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for s := range server.Sessions() {
			_ = s.Close() // of an agent that was not told to end
		}
		listener.Close()
	})
	return listener.URL, gone
}

func named(url, secret string) []object {
	return []object{{"type": "http", "name": "pedelec", "url": url, "headers": []object{{"name": "Authorization", "value": "Bearer " + secret}}}}
}

func (c *client) sessionWith(servers []object) string {
	c.t.Helper()
	result, err := c.call("session/new", object{"cwd": c.t.TempDir(), "mcpServers": servers})
	must(c.t, err)
	var r struct {
		SessionID string `json:"sessionId"`
	}
	must(c.t, json.Unmarshal(result, &r))
	return r.SessionID
}

// shown returns what the last turn's updates told of tool calls.
func (c *client) shown() (steps []string) {
	for _, u := range c.updates {
		var p struct {
			Title  string `json:"title"`
			Status string `json:"status"`
		}
		if strings.HasPrefix(u.Kind, "tool_call") && json.Unmarshal(u.Raw, &p) == nil {
			steps = append(steps, strings.Join([]string{u.Kind, p.Title, p.Status}, " "))
		}
	}
	return steps
}

func TestFrontendToolsAreCalledOverMCP(t *testing.T) {
	url, _ := toolHost(t)
	c := inProcess(t).initialise()
	id := c.sessionWith(append([]object{{"name": "other", "command": "/bin/false", "args": []string{}, "env": []object{}}}, named(url, testSecret)...))
	for script, want := range map[string]string{
		`call paint {"color":"red"}`:            `painted {"color":"red"}`,
		`call paint { "text" : "a | b 東京" }`:    `painted {"text":"a | b 東京"}`,
		`call fail {}`:                          `tool error: no paint`,
		`call-silent paint {}`:                  `painted {}`,
		`call-parallel 3 paint`:                 "painted {\"n\":1}\npainted {\"n\":2}\npainted {\"n\":3}",
		`call-parallel 2 paint {"color":"red"}`: "painted {\"color\":\"red\"}\npainted {\"color\":\"red\"}",
		`call paint {} ; echo on`:               `painted {} | on`,
		`call me maybe`:                         `call me maybe`,
		`call paint`:                            `call paint`,
		`call paint {`:                          `call paint {`,
		`call-parallel 0 paint`:                 `call-parallel 0 paint`,
		`call-parallel 2 paint me`:              `call-parallel 2 paint me`,
		`cli-spec paint`:                        `tool error: the instructions tell no command for paint`,
	} {
		if got := c.say(id, script); got != want {
			t.Errorf("%q said %q, want %q", script, got, want)
		}
	}
	if got := c.say(id, "call unknown {}"); !strings.HasPrefix(got, "tool error: ") {
		t.Errorf("an unknown tool said %q", got)
	}
	_, err := c.call("session/close", object{"sessionId": id})
	must(t, err)
}

func TestACallIsShownBeforeItIsMade(t *testing.T) {
	url, _ := toolHost(t)
	c := inProcess(t).initialise()
	id := c.sessionWith(named(url, testSecret))
	for script, want := range map[string][]string{
		"call paint {}":        {"tool_call pedelec_paint pending", "tool_call_update pedelec_paint in_progress", "tool_call_update  completed"},
		"call fail {}":         {"tool_call pedelec_fail pending", "tool_call_update pedelec_fail in_progress", "tool_call_update  failed"},
		"call-silent paint {}": nil,
	} {
		c.say(id, script)
		if got := c.shown(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q showed %q", script, got)
		}
	}
}

func TestAServerThatCannotBeUsedIsSaid(t *testing.T) {
	url, _ := toolHost(t)
	c := inProcess(t).initialise()
	for name, servers := range map[string][]object{
		"none":            {},
		"a wrong secret":  named(url, "wrong"),
		"nobody is there": named("http://127.0.0.1:1/mcp/t", testSecret),
	} {
		got := c.say(c.sessionWith(servers), "call paint {}")
		if !strings.HasPrefix(got, "tool error: ") || strings.Contains(got, testSecret) {
			t.Errorf("%s: said %q", name, got)
		}
	}
}

func TestASessionUsesTheServerOfAnotherInItsFolder(t *testing.T) {
	url, _ := toolHost(t)
	c := inProcess(t).initialise()
	dir := t.TempDir()
	guest, stranger := c.sessionIn(dir), c.session()
	_, err := c.call("session/new", object{"cwd": dir, "mcpServers": named(url, testSecret)})
	must(t, err)
	if got := c.say(guest, "call paint {}"); got != "painted {}" {
		t.Errorf("said %q", got)
	}
	if got := c.say(stranger, "call paint {}"); got != "tool error: the session has no tool server" {
		t.Errorf("in another folder it said %q", got)
	}
}

func TestACallEndsWithItsTurn(t *testing.T) {
	url, left := toolHost(t)
	c := inProcess(t).initialise()
	id := c.sessionWith(named(url, testSecret))
	turn := c.startPrompt(id, "echo begun ; call wait {}")
	c.until(4)
	c.notify("session/cancel", object{"sessionId": id})
	o, err := c.finish(turn)
	if err != nil || o.StopReason != "cancelled" {
		t.Errorf("%+v, %v", o, err)
	}
	if got := c.say(id, "call paint {}"); got != "painted {}" {
		t.Errorf("said %q", got)
	}
	select {
	case <-left: // unless the cancel came before the call
	default:
	}
}

func TestAResumedSessionUsesTheServerThatItIsTold(t *testing.T) {
	first, _ := toolHost(t)
	second, _ := toolHost(t)
	c := inProcess(t).initialise()
	id := c.sessionWith(named(first, testSecret))
	c.say(id, "call paint {}")
	for _, secret := range []string{"wrong", testSecret} {
		_, err := c.call("session/resume", object{"sessionId": id, "cwd": t.TempDir(), "mcpServers": named(second, secret)})
		must(t, err)
		if got := c.say(id, "call paint {}"); (got == "painted {}") != (secret == testSecret) {
			t.Errorf("with %q it said %q", secret, got)
		}
	}
}

// instructing is a host block that tells of commands.
func instructing(tools ...hostTool) string {
	block, err := json.Marshal(object{"guidance": "x", "tools": tools})
	if err != nil {
		panic(err)
	}
	return "[Pedelec Host Instructions]\nBe kind.\n\n" + contextBegin + string(block) + contextEnd + "\n[/Pedelec Host Instructions]\n\n[User Message]\n"
}

func TestAToolIsCalledUnderItsFunctionName(t *testing.T) {
	url, _ := toolHost(t)
	c := inProcess(t).initialise()
	id := c.sessionWith(named(url, testSecret))
	if got := c.say(id, instructing(hostTool{Name: "ui.paint", FunctionName: "paint"})+"call ui.paint {}"); got != "painted {}" {
		t.Errorf("said %q", got)
	}
}
