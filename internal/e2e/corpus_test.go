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
			play(t, path)
		})
	}
}

// settingsFile is the section that adds to the settings; every other one is a
// scene.
const settingsFile = "settings.json"

func play(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
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
