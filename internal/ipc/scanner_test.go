package ipc

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestLinesComeOutAsTheyWentInHoweverTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringMatching(`[a-z]{0,200}`)).Draw(t, "lines")
		rest := rapid.StringMatching(`[a-z]{0,50}`).Draw(t, "rest")
		var stream bytes.Buffer
		for _, l := range lines {
			stream.WriteString(l + "\n")
		}
		stream.WriteString(rest)
		room := rapid.IntRange(1, 3*smallBuffer).Draw(t, "room")
		var s lineScanner
		var got []string
		for {
			for l, ok := s.next(); ok; l, ok = s.next() {
				got = append(got, string(l))
			}
			_, err := s.fill(&stream, room)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Join(got, "\n") != strings.Join(lines, "\n") || len(got) != len(lines) {
			t.Fatalf("got %q, want %q", got, lines)
		}
		if string(s.rest()) != rest {
			t.Fatalf("rest %q, want %q", s.rest(), rest)
		}
	})
}

func TestALargeBufferGoesWhenItsLineIsGone(t *testing.T) {
	var s lineScanner
	stream := io.MultiReader(strings.NewReader(strings.Repeat("x", MaxLineBytes)+"\n"), iotest.OneByteReader(strings.NewReader("a\n")))
	taken := 0
	for taken < 2 {
		if _, err := s.fill(stream, maxBuffered-len(s.rest())); err != nil {
			t.Fatal(err)
		}
		if cap(s.buf) > 2*maxBuffered {
			t.Fatalf("a buffer of %d bytes", cap(s.buf))
		}
		for _, ok := s.next(); ok; _, ok = s.next() {
			taken++
		}
	}
	if cap(s.buf) > keptBuffer {
		t.Errorf("a quiet connection keeps %d bytes", cap(s.buf))
	}
}
