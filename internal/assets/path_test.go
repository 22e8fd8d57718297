package assets

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestSplitPath(t *testing.T) {
	const read, up = 1, 2 // for what the path is good
	for _, c := range []struct {
		path string
		good int
	}{
		{"/a", read | up},
		{"/a/b/c.txt", read | up},
		{"/.env", read | up},
		{"/...", read | up},
		{"/ spaced ", read | up},
		{"/🚲/é", read | up},
		{`/say "hi"`, read | up},
		{"/%2e%2e/x", read | up}, // taken byte for byte
		{"/~/x", read | up},
		{"/" + strings.Repeat("a", 255), read | up},
		{"/" + strings.Repeat("é", 127), read | up},
		{"/" + strings.Repeat("ab/", 1364) + "abc", read | up}, // 4096 bytes
		{"/.pedelec-x", read},
		{"/a/.pedelec-/b", read},
		{"/.PEDELEC-x", read | up},
		{"/.pedelec", read | up},
		{"", 0},
		{"/", 0},
		{"a", 0},
		{"a/b", 0},
		{"//a", 0},
		{"/a//b", 0},
		{"/a/", 0},
		{"/.", 0},
		{"/..", 0},
		{"/a/../b", 0},
		{"/a/./b", 0},
		{"/a/..", 0},
		{`/a\b`, 0},
		{`\a`, 0},
		{"/a\x00b", 0},
		{"/a\nb", 0},
		{"/a\x7f", 0},
		{"/a\u0085b", 0},
		{"/\xff", 0},
		{"/" + strings.Repeat("a", 256), 0},
		{"/" + strings.Repeat("é", 128), 0},
		{"/" + strings.Repeat("ab/", 1364) + "abcd", 0},
	} {
		for u, bit := range map[use]int{forReading: read, forUpload: up} {
			segments, err := splitPath(c.path, u)
			if good := err == nil; good != (c.good&bit != 0) {
				t.Errorf("%.40q for %d: %v", c.path, u, err)
			}
			if err == nil && publicPath(segments) != c.path {
				t.Errorf("%.40q comes back as %.40q", c.path, publicPath(segments))
			}
			if err != nil && (!fault.Is(err, fault.AssetPathInvalid) || fault.From(err).Msg == "") {
				t.Errorf("%.40q: %v", c.path, err)
			}
		}
	}
}

func FuzzSplitPath(f *testing.F) {
	for _, s := range []string{"/a/b", "/../x", "/a//b", `/a\b`, "/.pedelec-x", "/\x00", "/%2e%2e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, err := splitPath(path, forUpload)
		if err != nil {
			return
		}
		for _, s := range segments {
			if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\\\x00") || len(s) > MaxSegmentBytes || !filepath.IsLocal(s) {
				t.Fatalf("%q has the segment %q", path, s)
			}
		}
		if publicPath(segments) != path || !utf8.ValidString(path) || len(path) > MaxPathBytes {
			t.Fatalf("%q became %q", path, segments)
		}
		joined := filepath.Join(segments...)
		if !filepath.IsLocal(joined) || !slices.Equal(strings.Split(filepath.ToSlash(joined), "/"), segments) {
			t.Fatalf("%q leads to %q", path, joined)
		}
		if _, err := splitPath(path, forReading); err != nil {
			t.Fatalf("%q may be written and not be read: %v", path, err)
		}
	})
}
