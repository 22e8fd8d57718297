package proc

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTail(t *testing.T) {
	digits := strings.Repeat("0123456789", tailSize/5) // twice the ring
	tests := []struct {
		name   string
		writes []string
		n      int
		want   string
	}{
		{"nothing", nil, 10, ""},
		{"all of a little", []string{"a", "bc"}, 10, "abc"},
		{"the end of a little", []string{"abcdef"}, 3, "def"},
		{"none", []string{"abc"}, 0, ""},
		{"round the ring", []string{digits, "the end"}, 12, "56789the end"[:12]},
		{"one write larger than the ring", []string{digits + "X"}, 4, "789X"},
		{"the whole ring", []string{digits, "X"}, tailSize, (digits + "X")[len(digits)+1-tailSize:]},
		{"more than the ring", []string{digits, "X"}, 2 * tailSize, (digits + "X")[len(digits)+1-tailSize:]},
		{"a code point in two writes", []string{"\xe2\x82", "\xac"}, 10, "€"},
		{"a code point at the cut", []string{"a€b"}, 3, "b"},
		{"invalid bytes", []string{"a\xffb"}, 10, "a\uFFFDb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ring tail
			for _, w := range tt.writes {
				if n, err := ring.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("write: %d, %v", n, err)
				}
			}
			got := ring.last(tt.n)
			if got != tt.want {
				t.Errorf("got %d bytes %.40q, want %d bytes %.40q", len(got), got, len(tt.want), tt.want)
			}
			if !utf8.ValidString(got) {
				t.Error("invalid UTF-8")
			}
		})
	}
}
