package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCPServesToolsOnStandardStreams drives the command as an agent would.
func TestMCPServesToolsOnStandardStreams(t *testing.T) {
	d := newTestStage(t)
	client, err := d.launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(tools, []byte(addTool), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := (&app{stderr: io.Discard}).openChat(t.Context(), client, chatFlags{workspace: d.project, tools: tools})
	if err != nil {
		t.Fatal(err)
	}

	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	var errs strings.Builder
	a := &app{stdin: in, stdout: out, stderr: &errs}
	left := make(chan int, 1)
	go func() {
		left <- a.run(t.Context(), []string{"--home", d.home, "mcp", "--thread-id", id, "add"})
		out.Close()
	}()
	lines := bufio.NewReader(fromServer)
	ask := func(request string) string {
		if _, err := io.WriteString(toServer, request+"\n"); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("no answer to %s: %v; stderr %s", request, err, errs.String())
		}
		return line
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if _, err := io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if list := ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(list, `"name":"add"`) {
		t.Errorf("listed %s", list)
	}
	// No turn runs, so the thread refuses the call: what it says reaches the agent.
	if answer := ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}`); !strings.Contains(answer, "THREAD_BUSY") {
		t.Errorf("answered %s", answer)
	}
	toServer.Close()
	if status := <-left; status != 0 {
		t.Errorf("exit status %d at the end of the input, stderr %s", status, errs.String())
	}
}

func TestMCPRepeatsACallThatWasNotAnswered(t *testing.T) {
	requests := fakeDaemon(t,
		`{"requestId":"pedelec_1","ok":true,"result":{"name":"add","description":"adds","argsSchema":{}}}`+"\n",
		"", // breaks off
		`{"requestId":"pedelec_1","ok":true,"result":7}`+"\n",
	)
	talk := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}`,
	}, "\n") + "\n"
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	a := &app{stdin: in, stdout: out, stderr: io.Discard}
	left := make(chan int, 1)
	go func() {
		left <- a.run(t.Context(), []string{"mcp", "--thread-id", "t1", "add"})
		out.Close()
	}()
	if _, err := io.WriteString(toServer, talk); err != nil {
		t.Fatal(err)
	}
	answer := ""
	for lines := bufio.NewScanner(fromServer); !strings.Contains(answer, `"id":2`) && lines.Scan(); {
		answer = lines.Text()
	}
	if !strings.Contains(answer, `"text":"7"`) {
		t.Fatalf("answered %s", answer)
	}
	<-requests // what the tool is
	if first, second := <-requests, <-requests; first == "" || first != second {
		t.Errorf("the second request %q is not the first %q", second, first)
	}
	toServer.Close()
	if status := <-left; status != 0 {
		t.Errorf("exit status %d at the end of the input", status)
	}
}

func TestMCPRefusesWhatItCannotServe(t *testing.T) {
	t.Setenv(threadIDEnv, "")
	home := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{"mcp", "add"}, 2},
		{[]string{"mcp", "--thread-id", "t1"}, 2},
		{[]string{"mcp", "--thread-id", "t1", "add"}, 3},
	} {
		var out, errs strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
		if status := a.run(t.Context(), append([]string{"--home", home}, c.args...)); status != c.status || out.Len() > 0 || errs.Len() == 0 {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", c.args, status, out.String(), errs.String())
		}
	}
}
