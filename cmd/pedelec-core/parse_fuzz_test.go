package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzParseDurations(f *testing.F) {
	for _, s := range []string{"stop=200ms;sweep-delay=1s", " ; ", "stop=-1s", "stop", "nothing=1s", "stop=1h;stop=2h", "stop=9999999999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		d, err := parseDurations(value)
		if err != nil {
			if !strings.HasPrefix(err.Error(), durationsEnv+": ") {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		for name, length := range d {
			if _, known := durationNames[name]; !known || length <= 0 {
				t.Fatalf("%q sets %s to %v", value, name, length)
			}
		}
	})
}

// FuzzSeekLastLines compares with splitting the whole file.
func FuzzSeekLastLines(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), uint16(1), uint8(2))
	f.Add([]byte("no end"), uint16(1), uint8(1))
	f.Add([]byte("\n\n\n"), uint16(1), uint8(2))
	f.Add([]byte("0123456789abcde\n"), uint16(tailBlock/16+3), uint8(200))
	f.Add([]byte("x"), uint16(tailBlock-1), uint8(1))
	path := filepath.Join(f.TempDir(), "log")
	f.Fuzz(func(t *testing.T, part []byte, times uint16, n uint8) {
		content := bytes.Repeat(part, min(int(times), 2*tailBlock/max(1, len(part))))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := seekLastLines(file, int(n)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(content), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if want := strings.Join(lines[max(0, len(lines)-int(n)):], ""); string(got) != want {
			t.Fatalf("the last %d lines of %q are %q", n, content, got)
		}
	})
}

// FuzzLogLines reads logs in which there is anything: what is no log line comes out
// as it is, and nothing is lost.
func FuzzLogLines(f *testing.F) {
	f.Add([]byte(`{"level":"info","time":"2026-01-02T03:04:05Z","message":"listening","pid":7}`+"\npanic: x\n"), uint8(7))
	f.Add([]byte("{\"level\":1}\n{\"message\":null,\"a\":{\"b\":[]}}\nhalf"), uint8(255))
	f.Fuzz(func(t *testing.T, log []byte, chunk uint8) {
		var plain refusing
		w := &lineWriter{pretty: &refusing{fail: true}, plain: &plain}
		shown := &lineWriter{pretty: prettyLog(io.Discard), plain: io.Discard}
		for rest := log; len(rest) > 0; {
			n := min(len(rest), int(chunk)+1)
			for _, l := range []*lineWriter{w, shown} {
				if written, err := l.Write(rest[:n]); written != n || err != nil {
					t.Fatalf("%d of %d bytes: %v", written, n, err)
				}
			}
			rest = rest[n:]
		}
		if got := string(plain.took) + string(w.rest); got != string(log) {
			t.Fatalf("%q became %q", log, got)
		}
	})
}

// refusing takes what is written to it, or refuses all.
type refusing struct {
	fail bool
	took []byte
}

func (r *refusing) Write(p []byte) (int, error) {
	if r.fail {
		return 0, errors.New("no log line")
	}
	r.took = append(r.took, p...)
	return len(p), nil
}

func FuzzToolCommands(f *testing.F) {
	for _, s := range []string{"add=./add.sh", " add = x=y ", "=x", "add=", "add"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		commands, err := parseToolCommands([]string{spec})
		if err != nil {
			return
		}
		for name, command := range commands {
			if name == "" || strings.TrimSpace(name) != name || strings.TrimSpace(command) == "" || !strings.HasSuffix(spec, "="+command) {
				t.Fatalf("%q runs %q for %q", spec, command, name)
			}
		}
		if len(commands) != 1 {
			t.Fatalf("%q has %d commands", spec, len(commands))
		}
	})
}
