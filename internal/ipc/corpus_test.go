package ipc

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// The wire corpus: each testdata/wire/*.txtar says in its comment what it
// shows, sends the lines of "in" one after the other, and compares the answers
// with "out". A line in Go quotes stands for the bytes that it denotes; $TOKEN
// for the daemon's token. "setup" sets up the server, one word a line.
//
// Over a WebSocket the same requests come from a native client, who has shown the
// token in its handshake. Where the answers differ for that reason or because the
// transport refuses what is no text, they stand in "out over websocket".
func TestWireCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runCorpusFile(t, file) })
	}
}

// Sections of a file with the answers.
const (
	outSection    = "out"
	outWebSection = "out over websocket"
)

func runCorpusFile(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
	section := func(name string) string {
		for _, f := range archive.Files {
			if f.Name == name {
				return string(f.Data)
			}
		}
		return ""
	}
	play := func(transport func(*testing.T, *rig) func(line string) string) string {
		r := newRig(t)
		for word := range strings.FieldsSeq(section("setup")) {
			setUp(t, r, word)
		}
		exchange := transport(t, r)
		var out strings.Builder
		for line := range strings.Lines(section("in")) {
			answer := exchange(unquoteLine(t, strings.TrimSuffix(line, "\n")))
			out.WriteString(normalise(answer) + "\n")
			if answer == closedTCP {
				break
			}
		}
		return out.String()
	}
	lines, messages := play(overTCP), play(overWebSocket)
	if *update {
		replaced := txtar.Archive{Comment: archive.Comment}
		for _, f := range archive.Files {
			if f.Name != outSection && f.Name != outWebSection {
				replaced.Files = append(replaced.Files, f)
			}
		}
		replaced.Files = append(replaced.Files, txtar.File{Name: outSection, Data: []byte(lines)})
		if messages != lines {
			replaced.Files = append(replaced.Files, txtar.File{Name: outWebSection, Data: []byte(messages)})
		}
		compareGolden(t, path, txtar.Format(&replaced))
		return
	}
	if want := section(outSection); want != lines {
		t.Errorf("%s%s", archive.Comment, lineDiff(want, lines))
	}
	if want := cmp.Or(section(outWebSection), section(outSection)); want != messages {
		t.Errorf("over a WebSocket: %s%s", archive.Comment, lineDiff(want, messages))
	}
}

// closedTCP stands for the end of a TCP connection.
const closedTCP = "(closed)"

func overTCP(t *testing.T, r *rig) func(string) string {
	p := r.dial(t)
	return func(line string) string {
		p.send(line)
		answer, err := p.read()
		if err != nil {
			return closedTCP
		}
		return answer
	}
}

// overWebSocket goes on with a fresh connection after a close.
func overWebSocket(t *testing.T, r *rig) func(string) string {
	p := r.dialWeb(t, native())
	return func(line string) string {
		p.send(line)
		answer, err := p.read()
		if err != nil {
			p = r.dialWeb(t, native())
			return fmt.Sprintf("(closed %d)", closeCode(err))
		}
		return answer
	}
}

func setUp(t *testing.T, r *rig, word string) {
	t.Helper()
	switch word {
	case "require-token":
		r.settings.requireToken = true
	case "default-opencode":
		r.settings.standard = "opencode"
	case "thread":
		r.createThread(t)
	case "providers":
		r.settings.statuses = []thread.ProviderStatus{
			{Provider: thread.Claude, Error: "claude was not found; install it."},
			{Provider: thread.OpenCode, Available: true, Path: "/usr/bin/opencode", Version: "1.0"},
		}
	case "summaries":
		for _, id := range []string{"t1", "t2", "t3"} {
			r.threads.list = append(r.threads.list, thread.Summary{
				ThreadID: id, Provider: thread.Cursor, Status: thread.Ended, CreatedAt: testTime, UpdatedAt: testTime, WorkspacePath: "/w/" + id,
				Usage: thread.Usage{Known: id == "t2", TotalTokens: 7}, Owner: map[string]string{"t3": "https://a.example"}[id],
			})
		}
	case "":
	default:
		t.Fatalf("setup %q is not known", word)
	}
}

func unquoteLine(t *testing.T, line string) string {
	line = strings.ReplaceAll(line, "$TOKEN", testToken)
	if !strings.HasPrefix(line, `"`) {
		return line
	}
	s, err := strconv.Unquote(line)
	if err != nil {
		t.Fatalf("line %s: %v", line, err)
	}
	return s
}

// What differs from run to run, and what it is shown as.
var (
	processID = regexp.MustCompile(`"processId":\d+`)
	decidedAt = regexp.MustCompile(`"decidedAt":"[^"]+Z"`)
)

func normalise(line string) string {
	line = processID.ReplaceAllString(line, `"processId":1`)
	return decidedAt.ReplaceAllString(line, `"decidedAt":"now"`)
}

func lineDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return "line " + strconv.Itoa(i+1) + "\n want " + a + "\n got  " + b
		}
	}
	return ""
}

// corpusLines returns all lines that the wire corpus sends.
func corpusLines(t testing.TB) (lines [][]byte) {
	t.Helper()
	paths, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%q, %v", paths, err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.Files {
			if file.Name != "in" {
				continue
			}
			for line := range bytes.Lines(file.Data) {
				lines = append(lines, bytes.TrimSuffix(line, []byte{'\n'}))
			}
		}
	}
	return lines
}
