package thread

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestCutText(t *testing.T) {
	tests := []struct {
		in    string
		limit int
		want  string
		cut   bool
	}{
		{"", 0, "", false},
		{"abc", 3, "abc", false},
		{"abcd", 3, "abc", true},
		{"aä", 3, "aä", false},
		{"aäb", 2, "a", true},
		{"a😀", 4, "a", true},
		{"abc", 0, "", true},
		{"abc", -1, "", true},
		{"😀😀", 3, "", true},
		{"\xff\xff\xff", 2, "\xff\xff", true},
		{"\x80\x80\x80\x80\x80", 2, "", true},
		{"\x80\x80\x80\x80\x80", 4, "\x80\x80\x80\x80", true}, // something, so that a loop ends
	}
	for _, tt := range tests {
		if got, cut := CutText(tt.in, tt.limit); got != tt.want || cut != tt.cut {
			t.Errorf("CutText(%q, %d) = %q, %t, want %q, %t", tt.in, tt.limit, got, cut, tt.want, tt.cut)
		}
	}
}

// texts draws strings with code points of every length and every escape, and
// some bytes that are no text at all.
func texts() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "ä", "€", "😀", "\"", "\\", "\n", "\t", "\x00", "\x1f", "\x7f", "\u2028", "<", "\xff", "\x80", "\xe2\x82", "\ufffd"}),
		rapid.StringN(0, 8, -1),
	)
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces"), "") })
}

func TestSplitEncodedKeepsTheTextAndTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := texts().Draw(t, "text"), rapid.IntRange(1, 60).Draw(t, "limit")
		parts := splitEncoded(text, limit)
		if strings.Join(parts, "") != text || len(parts) == 0 {
			t.Fatalf("%q is split into %q", text, parts)
		}
		for _, part := range parts {
			if n := jsonLen(t, part); n > limit && utf8.RuneCountInString(part) > 1 {
				t.Fatalf("part %q has %d encoded bytes, limit %d", part, n, limit)
			}
			if utf8.ValidString(text) && !utf8.ValidString(part) {
				t.Fatalf("part %q cuts a code point", part)
			}
			if part == "" && text != "" {
				t.Fatalf("%q has an empty part", text)
			}
		}
	})
}

// jsonLen is the length of s as the wire encodes it, without quotes.
func jsonLen(t *rapid.T, s string) int {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\ufffd"))
	if err != nil {
		t.Fatal(err)
	}
	return len(b) - 2
}

func TestEncodedLenIsTheEncodersOwn(t *testing.T) {
	for r := range rune(0x3000) {
		b, err := jsontext.AppendQuote(nil, string(r))
		if err != nil {
			t.Fatal(err)
		}
		if got := encodedLen(r, utf8.RuneLen(r)); got != len(b)-2 {
			t.Errorf("%U: %d bytes, the encoder writes %d", r, got, len(b)-2)
		}
	}
}

func TestOpenTextKeepsWhatASnapshotShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var open []byte
		var whole strings.Builder
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 3*MaxActiveMessage), 1, 8).Draw(t, "lengths") {
			text := strings.Repeat("ä", n/2)
			open = appendOpen(open, text)
			whole.WriteString(text)
		}
		all := whole.String()
		want := all[max(0, len(all)-MaxActiveMessage):]
		if got := openTail(open); got != want {
			t.Fatalf("%d bytes shown, want %d", len(got), len(want))
		}
		if len(open) > 5*MaxActiveMessage {
			t.Fatalf("%d bytes are held", len(open))
		}
	})
}

func TestSaturatingAdd(t *testing.T) {
	const most = ^uint64(0)
	for _, tt := range [][3]uint64{{0, 0, 0}, {1, 2, 3}, {most, 0, most}, {most, 1, most}, {most - 1, 1, most}, {1 << 63, 1 << 63, most}} {
		if got := saturatingAdd(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%d + %d = %d, want %d", tt[0], tt[1], got, tt[2])
		}
	}
}
