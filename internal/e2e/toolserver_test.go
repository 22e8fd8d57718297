package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolServer is what an agent was told of a thread's tool server.
type toolServer struct {
	url, secret string
}

// overheard makes the scripted agent of a home one whose input the test can read,
// and returns the file with it. env adds to the agent's environment.
func overheard(t *testing.T, home string, env object) (heard string, agent object) {
	t.Helper()
	heard = filepath.Join(filepath.Dir(home), "heard")
	command, err := helperCommand("overhear", heard, binary, "agent", "--scripted")
	if err != nil {
		t.Fatal(err)
	}
	all := object{"PEDELEC_SCRIPTED_STATE": filepath.Join(filepath.Dir(home), "sessions")}
	for k, v := range env {
		all[k] = v
	}
	agent = object{"command": command, "env": all}
	writeSettings(t, home, object{"providerSettings": object{"opencode": agent}})
	return heard, agent
}

// overhear runs a program and copies what it is told into a file and to standard
// error, where a talkative program would repeat it, its environment included.
func overhear(args []string) int {
	heard, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stderr, strings.Join(os.Environ(), "\n"))
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { // ends with this process
		_, _ = io.Copy(io.MultiWriter(heard, os.Stderr, in), os.Stdin)
		in.Close()
	}()
	_ = cmd.Wait() // its status says nothing more
	return cmd.ProcessState.ExitCode()
}

// toolServers returns the tool servers that agents were told of, in order.
func toolServers(t *testing.T, heard string) []toolServer {
	t.Helper()
	b, err := os.ReadFile(heard)
	if err != nil {
		t.Fatal(err)
	}
	var all []toolServer
	for line := range strings.Lines(string(b)) {
		var m struct {
			Params struct {
				Servers []struct {
					URL     string `json:"url"`
					Headers []struct {
						Name  string `json:"name"`
						Value string `json:"value"`
					} `json:"headers"`
				} `json:"mcpServers"`
			} `json:"params"`
		}
		if json.Unmarshal([]byte(line), &m) != nil {
			continue // half a line, or none of a session
		}
		for _, s := range m.Params.Servers {
			for _, h := range s.Headers {
				if h.Name == "Authorization" {
					all = append(all, toolServer{s.URL, strings.TrimPrefix(h.Value, "Bearer ")})
				}
			}
		}
	}
	return all
}

// sender sends headers with every request.
type sender http.Header

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range s {
		r.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens a session with the tool server, as a conversation of an agent does.
func (s toolServer) connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	return client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url, MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: sender{"Authorization": {"Bearer " + s.secret}}},
	}, nil)
}

// call makes a call and returns what a model would read.
func (s toolServer) call(t *testing.T, name string, args object) (text string, isError bool) {
	t.Helper()
	session, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text += c.Text
		}
	}
	return text, result.IsError
}

func TestToolServerServesOnlyItsOwnConversation(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	heard, _ := overheard(t, home, nil)
	d := start(t, home)
	workspace := object{"workspace": object{"path": filepath.Join(filepath.Dir(home), "project")}}
	owner := newPage(t, d, workspace)
	if got := owner.says(owner.send("echo hello")); got != "hello" {
		t.Fatalf("the agent says %q", got)
	}
	second := newPage(t, d, workspace)
	second.says(second.send("echo hello"))
	servers := toolServers(t, heard)
	if len(servers) != 1 || len(servers[0].secret) < 64 {
		t.Fatalf("agents were told of %d tool servers; the second conversation of a folder must get none", len(servers))
	}
	server := servers[0]

	// Some agents offer what one conversation has to all in the same folder. The
	// second one's turn is what runs; the call arrives at the first one's server.
	second.busy()
	if text, isError := server.call(t, "ask", object{}); !isError || !strings.Contains(text, "THREAD_") {
		t.Errorf("a call for a thread without a turn got %q", text)
	}
	owner.busy()
	if text, isError := server.call(t, "ask", object{}); !isError || !strings.Contains(text, "THREAD_ACCESS_DENIED") {
		t.Errorf("a call that the running turn does not show got %q", text)
	}
	owner.quiet("tool_call")
	second.quiet("tool_call")

	t.Log("the list is what the page gave")
	session, err := server.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"add", "ask"}) {
		t.Errorf("the server lists %v", names)
	}
	session.Close()

	t.Log("the end of the thread makes the secret void")
	owner.must(owner.c.call("end_thread", object{"threadId": owner.id}, nil))
	if got := server.status(t, nil); got != http.StatusUnauthorized {
		t.Errorf("the secret of an ended thread got %d", got)
	}
}

// status sends a request as it stands and returns what it got.
func (s toolServer) status(t *testing.T, header http.Header) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Authorization": {"Bearer " + s.secret}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	res, err := transferClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

func TestToolServerIsClosedToPagesAndStrangers(t *testing.T) {
	t.Parallel()
	home := newHome(t)
	heard, _ := overheard(t, home, nil)
	d := start(t, home)
	first, second := newPage(t, d, nil), newPage(t, d, nil)
	first.says(first.send("echo hello"))
	second.says(second.send("echo hello"))
	servers := toolServers(t, heard)
	if len(servers) != 2 {
		t.Fatalf("agents were told of %d tool servers, want 2", len(servers))
	}
	server, other := servers[0], servers[1]
	for _, tt := range []struct {
		name   string
		server toolServer
		header http.Header
		want   int
	}{
		{"no secret", server, http.Header{"Authorization": nil}, http.StatusUnauthorized},
		{"a wrong secret", toolServer{server.url, strings.Repeat("0", 64)}, nil, http.StatusUnauthorized},
		{"another thread's secret", toolServer{server.url, other.secret}, nil, http.StatusUnauthorized},
		{"the daemon's token", toolServer{server.url, d.info.Token}, nil, http.StatusUnauthorized},
		{"an unknown thread", toolServer{"http://" + d.info.HTTPEndpoint + "/mcp/tnobody", server.secret}, nil, http.StatusUnauthorized},
		{"a page", server, http.Header{"Origin": {"https://app.example"}}, http.StatusForbidden},
		{"a page of its own address", server, http.Header{"Origin": {"http://" + d.info.HTTPEndpoint}}, http.StatusForbidden},
		{"another host", server, http.Header{"Host": {"evil.example"}}, http.StatusMisdirectedRequest},
	} {
		if got := tt.server.status(t, tt.header); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
