package loopback

import (
	"strings"
	"testing"
)

func TestNormalizeOrigin(t *testing.T) {
	const extension = "abcdefghijklmnopabcdefghijklmnop"
	tests := []struct{ name, in, want string }{ // want "" = refused
		{"plain", "https://app.example", "https://app.example"},
		{"http", "http://app.example", "http://app.example"},
		{"final slash", "https://app.example/", "https://app.example"},
		{"upper case", "HTTPS://App.Example", "https://app.example"},
		{"default port of https", "https://app.example:443", "https://app.example"},
		{"default port of http", "http://app.example:80", "http://app.example"},
		{"the other's default port", "http://app.example:443", "http://app.example:443"},
		{"port", "http://localhost:5173", "http://localhost:5173"},
		{"port with zeros", "http://localhost:05173", "http://localhost:5173"},
		{"IPv4", "http://127.0.0.1:3000", "http://127.0.0.1:3000"},
		{"IPv6", "http://[::1]:3000", "http://[::1]:3000"},
		{"IPv6 long", "http://[0:0:0:0:0:0:0:1]:80", "http://[::1]"},
		{"international", "https://Bücher.example", "https://xn--bcher-kva.example"},
		{"international, encoded", "https://xn--bcher-kva.example", "https://xn--bcher-kva.example"},
		{"sharp s stays itself", "https://straße.example", "https://xn--strae-oqa.example"},
		{"wide dots and letters", "https://ａｐｐ。example", "https://app.example"},
		{"underscore", "http://my_host.lan", "http://my_host.lan"},
		{"root dot is another origin", "https://app.example.", "https://app.example."},
		{"extension", "chrome-extension://" + extension, "chrome-extension://" + extension},
		{"extension with slash", "chrome-extension://" + extension + "/", "chrome-extension://" + extension},

		{"empty", "", ""},
		{"null", "null", ""},
		{"blank", " ", ""},
		{"leading blank", " https://app.example", ""},
		{"trailing line feed", "https://app.example\n", ""},
		{"no scheme", "app.example", ""},
		{"scheme-relative", "//app.example", ""},
		{"no host", "https://", ""},
		{"no slashes", "https:app.example", ""},
		{"other scheme", "ftp://app.example", ""},
		{"file", "file:///", ""},
		{"websocket", "wss://app.example", ""},
		{"user", "https://me@app.example", ""},
		{"empty user", "https://@app.example", ""},
		{"path", "https://app.example/x", ""},
		{"two slashes", "https://app.example//", ""},
		{"query", "https://app.example/?x", ""},
		{"empty query", "https://app.example?", ""},
		{"fragment", "https://app.example#x", ""},
		{"empty fragment", "https://app.example/#", ""},
		{"backslash", `https://app.example\`, ""},
		{"blank in host", "https://app example", ""},
		{"percent in host", "https://app%41.example", ""},
		{"control in host", "https://app\x00.example", ""},
		{"empty label", "https://app..example", ""},
		{"leading dot", "https://.example", ""},
		{"empty port", "https://app.example:", ""},
		{"port zero", "https://app.example:0", ""},
		{"port too large", "https://app.example:65536", ""},
		{"port no number", "https://app.example:x", ""},
		{"signed port", "https://app.example:+80", ""},
		{"IPv6 zone", "http://[fe80::1%25eth0]", ""},
		{"IPv6 without brackets", "http://::1", ""},
		{"IPv4 in brackets", "http://[127.0.0.1]", ""},
		{"list", "https://a.example, https://b.example", ""},
		{"wildcard", "https://*.example", ""},
		{"bad punycode", "https://xn--a.example", ""},
		{"invalid UTF-8, encoded", "http://0%8000", ""}, // was http://xn--000-5t7s, which is none
		{"invalid UTF-8", "https://app\xff.example", ""},
		{"extension id too short", "chrome-extension://abc", ""},
		{"extension id of other letters", "chrome-extension://" + strings.Repeat("q", 32), ""},
		{"extension with port", "chrome-extension://" + extension + ":1", ""},
		{"extension with path", "chrome-extension://" + extension + "/x", ""},
		{"too long", "https://" + strings.Repeat("a", MaxOrigin), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := NormalizeOrigin(tt.in)
			if ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("NormalizeOrigin(%q) = %q, %v; want %q", tt.in, got, ok, tt.want)
			}
			if !ok && got != "" {
				t.Errorf("refused, and yet returned %q", got)
			}
		})
	}
}

func FuzzNormalizeOrigin(f *testing.F) {
	for _, s := range []string{"https://app.example:443/", "HTTP://[::1]:80", "https://Bücher.example", "chrome-extension://abcdefghijklmnopabcdefghijklmnop", "null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, ok := NormalizeOrigin(s)
		if !ok {
			return
		}
		twice, ok := NormalizeOrigin(once)
		if !ok || twice != once {
			t.Fatalf("%q became %q, which became %q, %v", s, once, twice, ok)
		}
		for _, c := range []byte(once) {
			if c <= ' ' || c >= 0x7f || c >= 'A' && c <= 'Z' {
				t.Fatalf("%q became %q", s, once)
			}
		}
	})
}
