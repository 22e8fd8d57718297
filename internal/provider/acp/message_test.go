package acp

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pedelec/pedelec-core/internal/provider"
)

func TestARetriedMessageIsPutRightAndOtherTextIsKept(t *testing.T) {
	tests := []struct {
		name   string
		chunks string // words; "|" is a silence, "T" a tool call
		want   string
	}{
		{"no silence", "one two one two", "onetwoonetwo"},
		{"begun anew and finished", "one two | one two three", "onetwothree"},
		{"begun anew twice", "one two | one | one two three", "onetwothree"},
		{"silence at a whole repeat", "one two | one two", "onetwo"},
		{"a slow model that goes on", "one two | three", "onetwothree"},
		{"a shorter repeat at the end is new text", "one two | one", "onetwoone"},
		{"another beginning is new text", "one two | two one", "onetwotwoone"},
		{"a tool call explains the silence", "one T | one two", "oneonetwo"},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := message{gap: DefaultRetryGap, limit: provider.MaxMessageBytes}
				for word := range strings.FieldsSeq(tt.chunks) {
					switch word {
					case "|":
						time.Sleep(DefaultRetryGap) // in the bubble's time
					case "T":
						m.tool = true
					default:
						m.add("id", word, time.Now())
					}
				}
				if got := m.take(); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if m.text.Len() != 0 || len(m.starts) != 0 || m.id != "" {
					t.Error("the next message does not begin empty")
				}
			})
		})
	}
}

func TestWithoutASilenceAMessageIsItsChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOf(rapid.StringMatching(`[ab ]{1,3}`)).Draw(t, "chunks")
		m := message{gap: DefaultRetryGap, limit: provider.MaxMessageBytes}
		for _, c := range chunks {
			m.add("", c, time.Time{})
		}
		if got, want := m.take(), strings.Join(chunks, ""); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestTextThatWouldBeACommandIsMadeOrdinary(t *testing.T) {
	for text, want := range map[string]string{
		"hello":           "hello",
		"/init":           "- /init",
		" /init":          "-  /init",
		"\n\t/x":          "- \n\t/x",
		"\u00a0/x":        "- \u00a0/x",
		"a /b":            "a /b",
		"@file":           "@file",
		"!ls":             "!ls",
		"":                "",
		"- /already":      "- /already",
		"//":              "- //",
		"\u2003\u2003/up": "- \u2003\u2003/up",
	} {
		if got := ordinary(text); got != want {
			t.Errorf("ordinary(%q) = %q, want %q", text, got, want)
		}
	}
}
