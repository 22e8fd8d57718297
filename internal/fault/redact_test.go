package fault

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestRedactorRemovesSecrets(t *testing.T) {
	const canary = "c4n4ry-9f8e7d6c5b4a"
	var known Redactor
	known.Add(canary)
	tests := []struct {
		name, in, want string
	}{
		{"a known secret", "before " + canary + " after", "before [redacted] after"},
		{"a known secret inside a word", "x" + canary + "y" + canary, "x[redacted]y[redacted]"},
		{"bearer header", "Authorization: Bearer abcdef0123456789", "Authorization: Bearer [redacted]"},
		{"bearer in another case", "authorization: BEARER abcdef0123456789==", "authorization: BEARER [redacted]"},
		{"json token", `{"authToken":"abcdef0123456789","type":"ping"}`, `{"authToken":"[redacted]","type":"ping"}`},
		{"env style", "OPENAI_API_KEY=abcdef0123456789 next", "OPENAI_API_KEY=[redacted] next"},
		{"yaml style", "password: hunter2hunter2", "password: [redacted]"},
		{"spaced", `apikey = 'abcdef0123456789'`, `apikey = '[redacted]'`},
		{"with a dash", "api-key=abcdef0123456789", "api-key=[redacted]"},
		{"server password", "OPENCODE_SERVER_PASSWORD=abcdef0123456789", "OPENCODE_SERVER_PASSWORD=[redacted]"},
		{"client secret", "client_secret=abcdef0123456789", "client_secret=[redacted]"},
		{"vendor key", "got sk-proj-abcdefghijklmnop1234 from env", "got [redacted] from env"},
		{"ordinary words", "the token is short and the key is under the mat", "the token is short and the key is under the mat"},
		{"short value", "token=abc", "token=abc"},
		{"usage figures", `{"totalTokens":123456789}`, `{"totalTokens":123456789}`},
		{"nothing", "", ""},
		{"two lines", "token=abcdefgh1\ntoken=abcdefgh2\n", "token=[redacted]\ntoken=[redacted]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := known.String(tt.in); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestShortStringsAreNoSecrets(t *testing.T) {
	var r Redactor
	r.Add("")
	r.Add("the")
	r.Add("1234567")
	if got := r.String("the 1234567"); got != "the 1234567" {
		t.Errorf("got %q", got)
	}
	r.Add("12345678")
	if got := r.String("the 12345678"); got != "the [redacted]" {
		t.Errorf("got %q", got)
	}
}

func TestASecretThatContainsAnotherLeavesNoRest(t *testing.T) {
	const short, long = "abcdefgh", "abcdefgh-and-more"
	for _, order := range [][2]string{{short, long}, {long, short}} {
		var r Redactor
		r.Add(order[0])
		r.Add(order[1])
		if got := r.String("x " + long + " y " + short); got != "x [redacted] y [redacted]" {
			t.Errorf("added %v: %q", order, got)
		}
	}
}

func TestRedactorWriter(t *testing.T) {
	var buf bytes.Buffer
	var r Redactor
	r.Add("top-secret-value")
	line := "key top-secret-value\n"
	n, err := r.Writer(&buf).Write([]byte(line))
	if n != len(line) || err != nil || buf.String() != "key [redacted]\n" {
		t.Errorf("wrote %d, %v: %q", n, err, buf.String())
	}
	if _, err := r.Writer(brokenWriter{}).Write([]byte(line)); !errors.Is(err, errBroken) {
		t.Errorf("a broken writer's error is %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func FuzzRedactor(f *testing.F) {
	for _, s := range []string{"", "a canary-0123456789 b", "Bearer canary-0123456789", "token=\"canary-0123456789\"", "canarycanary-0123456789-0123456789", "sk-canary-0123456789"} {
		f.Add(s)
	}
	const canary = "canary-0123456789"
	f.Fuzz(func(t *testing.T, s string) {
		var r Redactor
		r.Add(canary)
		once := r.String(s)
		if strings.Contains(once, canary) {
			t.Fatalf("%q keeps the secret: %q", s, once)
		}
	})
}
