package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeekLastLines(t *testing.T) {
	long := strings.Repeat("x", tailBlock+10)
	for name, c := range map[string]struct {
		text string
		n    int
		want string
	}{
		"none asked":            {"a\nb\n", 0, ""},
		"the last":              {"a\nb\n", 1, "b\n"},
		"more than there are":   {"a\nb\n", 5, "a\nb\n"},
		"exactly what there is": {"a\nb\n", 2, "a\nb\n"},
		"unfinished last line":  {"a\nb", 1, "b"},
		"empty file":            {"", 3, ""},
		"across blocks":         {"a\n" + long + "\nz\n", 2, long + "\nz\n"},
		"block border":          {"a\n" + strings.Repeat("y", tailBlock-1) + "\n", 1, strings.Repeat("y", tailBlock-1) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := seekLastLines(f, c.n); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got %d bytes, want %d", len(got), len(c.want))
			}
		})
	}
}

func TestFollowingALogSurvivesItsRotation(t *testing.T) {
	home := t.TempDir()
	path := logPath(home)
	if err := os.Mkdir(filepath.Dir(path), folderMode); err != nil {
		t.Fatal(err)
	}
	appendLine := func(line string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	appendLine("old")
	appendLine("first")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := make(chan string, 10)
	a := &app{stdout: chanWriter(out), home: home, json: true}
	done := make(chan error, 1)
	go func() { done <- a.logs(ctx, logsFlags{lines: 1, follow: true}) }()
	want := func(line string) {
		t.Helper()
		if got := <-out; got != line+"\n" {
			t.Fatalf("printed %q, want %q", got, line)
		}
	}
	want("first")
	appendLine("second")
	want("second")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	appendLine("third, in a new file")
	want("third, in a new file")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// chanWriter hands on what is written.
type chanWriter chan<- string

func (w chanWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestLineWriterFormatsWholeLinesOnly(t *testing.T) {
	var out strings.Builder
	w := &lineWriter{pretty: prettyLog(&out), plain: &out}
	for _, piece := range []string{`{"level":"info","mess`, `age":"hello"}` + "\nnot a log", " line\n"} {
		if _, err := io.WriteString(w, piece); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); !strings.Contains(got, "INF hello") || !strings.HasSuffix(got, "not a log line\n") {
		t.Errorf("wrote %q", got)
	}
}
