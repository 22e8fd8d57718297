package loopback

import (
	"regexp"
	"testing"
)

func TestTokens(t *testing.T) {
	a, b := NewToken(), NewToken()
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(a) || a == b {
		t.Errorf("tokens %q and %q", a, b)
	}
	tests := []struct {
		name                string
		presented, expected string
		want                bool
	}{
		{"equal", a, a, true},
		{"different", a, b, false},
		{"a prefix", a[:63], a, false},
		{"more", a + "0", a, false},
		{"empty", "", a, false},
		{"nothing is expected", "", "", false},
		{"other case", "AB", "ab", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if TokenEqual(tt.presented, tt.expected) != tt.want {
				t.Errorf("want %v", tt.want)
			}
		})
	}
}
