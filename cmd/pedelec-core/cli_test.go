package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// runCLILine carries out one command line of pedelec-cli and returns what it
// printed.
func runCLILine(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs}
	if status := a.runCLI(t.Context(), args); status != 0 {
		t.Errorf("exit status %d, want 0 always", status)
	}
	if errs.Len() > 0 {
		t.Errorf("stderr: %s", errs.String())
	}
	line, ended := strings.CutSuffix(out.String(), "\n")
	if !ended || strings.Contains(line, "\n") || !jsontext.Value(line).IsValid() {
		t.Errorf("printed %q, want one line of JSON", out.String())
	}
	return line
}

func TestCLIExplainsWhatIsWrong(t *testing.T) {
	t.Setenv(provider.RuntimeFileEnv, filepath.Join(t.TempDir(), "no-such-file.json"))
	t.Setenv(threadIDEnv, "")
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"no arguments", "", nil, `"code":"TOOL_ARGS_INVALID"`},
		{"help is no form of it", "", []string{"--help"}, `"code":"TOOL_ARGS_INVALID"`},
		{"a blank thread", "", []string{"--thread-id", " ", "tool-spec", "x"}, `"code":"TOOL_ARGS_INVALID"`},
		{"an unknown verb", "", []string{"--thread-id", "t1", "tool-sing", "x"}, `"code":"TOOL_ARGS_INVALID"`},
		{"the thread in one word", "", []string{"--thread-id=t1", "tool-spec", "x"}, `"code":"TOOL_ARGS_INVALID"`},
		{"no tool", "", []string{"--thread-id", "t1", "tool-spec"}, `"code":"TOOL_ARGS_INVALID"`},
		{"too much", "", []string{"--thread-id", "t1", "tool-call", "x", "{}", "{}"}, `"code":"TOOL_ARGS_INVALID"`},
		{"no JSON", "", []string{"--thread-id", "t1", "tool-call", "x", `{"a":`}, `"code":"TOOL_ARGS_INVALID","message":"The arguments are no JSON.","details":{"error":`},
		{"no JSON on stdin", "{", []string{"--thread-id", "t1", "tool-call", "x", "-"}, `"code":"TOOL_ARGS_INVALID"`},
		{"a name twice", "", []string{"--thread-id", "t1", "tool-call", "x", `{"a":1,"a":2}`}, `"code":"TOOL_ARGS_INVALID"`},
		{"too large", `"` + strings.Repeat("x", ipc.MaxLineBytes) + `"`, []string{"--thread-id", "t1", "tool-call", "x", "-"}, `"code":"MESSAGE_TOO_LARGE"`},
		{"no thread in the old form", "", []string{"tool-spec", "x"}, `"code":"PEDELEC_THREAD_ID_NOT_FOUND"`},
		{"no daemon", "", []string{"--thread-id", "t1", "tool-spec", "x"}, `"code":"CORE_RUNTIME_UNAVAILABLE"`},
		{"no daemon for a call", "", []string{"--thread-id", "t1", "tool-call", "x", `{}`}, `"code":"CORE_RUNTIME_UNAVAILABLE"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			line := runCLILine(t, c.stdin, c.args...)
			if !strings.HasPrefix(line, `{"ok":false,"error":{`) || !strings.Contains(line, c.want) {
				t.Errorf("printed %s, want %s in it", line, c.want)
			}
		})
	}
}

// fakeDaemon answers each connection with one of the given lines, "" = closes it
// unanswered, and returns the requests that it got.
func fakeDaemon(t *testing.T, answers ...string) (requests <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, len(answers))
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		defer close(got)
		for _, answer := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			got <- line
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
		}
	}()
	home := t.TempDir()
	if err := ipc.NewRuntimeFile(l.Addr()).Write(home); err != nil {
		t.Fatal(err)
	}
	t.Setenv(provider.RuntimeFileEnv, filepath.Join(home, ipc.AgentRuntimeFileName))
	return got
}

func TestCLIPrintsTheResultAsItIs(t *testing.T) {
	const result = `{"b":1e2,"a":"\u00e9<","b2":[1.0,null]}`
	requests := fakeDaemon(t, `{"requestId":"pedelec_1","ok":true,"result":`+result+"}\n")
	line := runCLILine(t, "", "--thread-id", " t1 ", "tool-call", "add", ` { "x" : 1.50 } `)
	if want := `{"ok":true,"result":` + result + `}`; line != want {
		t.Errorf("printed %s, want %s", line, want)
	}
	if request := <-requests; !strings.Contains(request, `"type":"tool_call"`) || !strings.Contains(request, `"threadId":"t1"`) ||
		!strings.Contains(request, `"args":{"x":1.50}`) || strings.Contains(request, "callerOrigin") {
		t.Errorf("sent %s", request)
	}
}

func TestCLIRepeatsACallThatWasNotAnswered(t *testing.T) {
	requests := fakeDaemon(t, "", `{"requestId":"pedelec_1","ok":true,"result":7}`+"\n")
	if line := runCLILine(t, "", "--thread-id", "t1", "tool-call", "add", "{}"); line != `{"ok":true,"result":7}` {
		t.Errorf("printed %s", line)
	}
	if first, second := <-requests, <-requests; first == "" || first != second {
		t.Errorf("the second request %q is not the first %q", second, first)
	}
}

func TestCLIRepeatsACallOnceOnly(t *testing.T) {
	requests := fakeDaemon(t, "", "", "never")
	if line := runCLILine(t, "", "--thread-id", "t1", "tool-call", "add", "{}"); !strings.Contains(line, `"CORE_RUNTIME_UNAVAILABLE"`) {
		t.Errorf("printed %s", line)
	}
	<-requests
	<-requests
	select {
	case r, open := <-requests:
		if open {
			t.Errorf("a third request came: %s", r)
		}
	default:
	}
}

func TestCLIRepeatsNothingThatWasAnswered(t *testing.T) {
	fakeDaemon(t, `{"requestId":"pedelec_1","ok":false,"error":{"code":"CORE_RUNTIME_UNAVAILABLE","message":"leaving"}}`+"\n", "never")
	if line := runCLILine(t, "", "--thread-id", "t1", "tool-call", "add", "{}"); !strings.Contains(line, `"leaving"`) {
		t.Errorf("printed %s", line)
	}
}

func TestCLITakesTheThreadFromTheEnvironment(t *testing.T) {
	requests := fakeDaemon(t, `{"requestId":"pedelec_1","ok":false,"error":{"code":"TOOL_NOT_FOUND","message":"m","details":{"toolName":"add"}}}`+"\n")
	t.Setenv(threadIDEnv, "t7")
	want := `{"ok":false,"error":{"code":"TOOL_NOT_FOUND","message":"m","details":{"toolName":"add"}}}`
	if line := runCLILine(t, "", "tool-spec", "add"); line != want {
		t.Errorf("printed %s, want %s", line, want)
	}
	if request := <-requests; !strings.Contains(request, `"threadId":"t7"`) {
		t.Errorf("sent %s", request)
	}
}

func TestCalledAsKnowsItsName(t *testing.T) {
	for argv0, want := range map[string]bool{
		"pedelec-cli": true, "/home/me/.pedelec/bin/pedelec-cli": true, "pedelec-cli.exe": true,
		"pedelec-core": false, "/pedelec-cli/pedelec-core": false, "": false,
	} {
		if got := calledAs(argv0, cliName); got != want {
			t.Errorf("calledAs(%q) = %t", argv0, got)
		}
	}
}

func TestSomebodyWhoDoesNotReadIsTold(t *testing.T) {
	var errs strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: brokenWriter{}, stderr: &errs}
	if status := a.runCLI(t.Context(), nil); status != fault.ExitDone || !strings.Contains(errs.String(), "cannot be printed") {
		t.Errorf("status %d, stderr %q", status, errs.String())
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestLinkCLIReplacesWhatStoodThere(t *testing.T) {
	home := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := cliPath(home)
	for _, before := range []func() error{
		func() error { return nil },
		func() error { return nil }, // once more, it is there already
		func() error { return errors.Join(os.Remove(link), os.WriteFile(link, []byte("old"), 0o700)) },
	} {
		if err := before(); err != nil {
			t.Fatal(err)
		}
		if err := linkCLI(home); err != nil {
			t.Fatal(err)
		}
		want, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.Stat(link)
		if err != nil || got.Size() != want.Size() {
			t.Errorf("%s does not lead to the program: %v", link, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(link))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v; want the link alone", entries, err)
	}
}

// TestAnErrorReadsTheSameEverywhere tells one error to a client in an event, to a
// model, to an agent's shell and to a page that transfers a file.
func TestAnErrorReadsTheSameEverywhere(t *testing.T) {
	e := fault.New(fault.ToolTimeout, "No <answer> & no \xff.").With("waitedMs", 5000).With("tool", "a\"b").With("broken", func() {})
	const want = `{"code":"TOOL_TIMEOUT","message":"No <answer> & no \ufffd.","details":{"tool":"a\"b","waitedMs":5000}}`
	model, _ := provider.AnswerText(thread.ToolAnswer{Error: e})
	for surface, told := range map[string]string{
		"an event":  string(ipc.EncodeEvent(nil, "t", &thread.Event{Kind: thread.EventOperationCompleted, Error: e})),
		"a model":   model,
		"a shell":   string(cliLine(nil, e)),
		"a request": string(thread.EncodeError(e)),
	} {
		if !strings.Contains(told, `"error":`+strings.ReplaceAll(want, `\ufffd`, "\ufffd")+"}") {
			t.Errorf("%s reads %s", surface, told)
		}
	}
}
