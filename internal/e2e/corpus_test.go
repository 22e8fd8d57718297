package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestCorpus plays each file of the corpus against a daemon of its own and
// compares all that came over the wire with what the file says. The README beside
// the files describes the format.
func TestCorpus(t *testing.T) {
	paths, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus found: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			play(t, path, newStage(t))
		})
	}
}

// notOverWebSocket are the files that say what is different over a WebSocket.
// Package ipc holds that transport to its own rules.
var notOverWebSocket = map[string]string{
	"assets":        asOperator,
	"envelope":      asOperator,
	"owners":        asOperator,
	"require-token": asOperator,
	"tool-errors":   asOperator,
	"tool-call":     "a message over the limit closes a WebSocket without an answer",
}

const asOperator = "it has requests without a token, which a native client on a WebSocket has always shown"

// TestCorpusOverWebSocket plays the same files over WebSockets of a native client.
func TestCorpusOverWebSocket(t *testing.T) {
	paths, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus found: %v", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			if why := notOverWebSocket[name]; why != "" {
				t.Skip(why)
			}
			if *update {
				t.Skip("expectations are written from what comes over TCP")
			}
			t.Parallel()
			s := newStage(t)
			s.web = true
			play(t, path, s)
		})
	}
}

// settingsFile is the section that adds to the settings; every other one is a
// scene.
const settingsFile = "settings.json"

func play(t *testing.T, path string, s *stage) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range archive.Files {
		if archive.Files[i].Name == settingsFile {
			s.settings(archive.Files[i].Data)
		}
	}
	s.env = directives(string(archive.Comment), "env:")
	s.startDaemon(nil)
	changed := false
	for i := range archive.Files {
		f := &archive.Files[i]
		if f.Name == settingsFile {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			script, err := parseScript(string(f.Data))
			if err != nil {
				t.Fatal(err)
			}
			want := string(f.Data)
			got := s.play(t, script)
			if got == want {
				return
			}
			if !*update {
				t.Errorf("%s, scene %q (-want +got):\n%s", path, f.Name, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
				return
			}
			f.Data, changed = []byte(got), true
		})
		if s.broken {
			t.Errorf("the scenes after %q were not played", f.Name)
			break
		}
	}
	if !changed {
		return
	}
	if t.Failed() {
		t.Log("not updated, since a scene failed")
		return
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("updated %s; review the diff", path)
}

// directives returns the words behind lines of a comment that begin with a key.
func directives(comment, key string) []string {
	var words []string
	for line := range strings.Lines(comment) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			words = append(words, strings.Fields(rest)...)
		}
	}
	return words
}
