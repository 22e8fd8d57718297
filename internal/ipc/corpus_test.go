package ipc

import (
	"bytes"
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
func TestWireCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runCorpusFile(t, file) })
	}
}

func runCorpusFile(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
	section := func(name string) []string {
		for _, f := range archive.Files {
			if f.Name == name {
				return strings.Split(strings.TrimSuffix(string(f.Data), "\n"), "\n")
			}
		}
		return nil
	}
	r := newRig(t)
	for _, word := range section("setup") {
		setUp(t, r, word)
	}
	p := r.dial(t)
	var out bytes.Buffer
	for _, line := range section("in") {
		p.send(unquoteLine(t, line))
		answer, err := p.read()
		if err != nil {
			out.WriteString("(closed)\n")
			break
		}
		out.WriteString(normalise(answer) + "\n")
	}
	if *update {
		replaced := txtar.Archive{Comment: archive.Comment}
		for _, f := range archive.Files {
			if f.Name != "out" {
				replaced.Files = append(replaced.Files, f)
			}
		}
		replaced.Files = append(replaced.Files, txtar.File{Name: "out", Data: out.Bytes()})
		compareGolden(t, path, txtar.Format(&replaced))
		return
	}
	want := strings.Join(section("out"), "\n") + "\n"
	if want != out.String() {
		t.Errorf("%s%s", archive.Comment, lineDiff(want, out.String()))
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

var processID = regexp.MustCompile(`"processId":\d+`)

func normalise(line string) string { return processID.ReplaceAllString(line, `"processId":1`) }

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
