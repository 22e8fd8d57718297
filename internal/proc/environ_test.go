package proc

import (
	"runtime"
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names and locale differ between systems")
	}
	defaults := []string{"NO_PROXY=127.0.0.1,localhost,::1", "no_proxy=127.0.0.1,localhost,::1", "LANG=C.UTF-8", "PEDELEC_RUNTIME=id"}
	with := func(first ...string) []string { return append(first, defaults...) }
	tests := []struct {
		name                 string
		base, inherit, extra []string
		want                 []string
	}{
		{"nothing", nil, nil, nil, defaults},
		{"what is allowed", []string{"HOME=/h", "PATH=/bin", "XDG_DATA_HOME=/d"}, nil, nil, with("HOME=/h", "PATH=/bin", "XDG_DATA_HOME=/d")},
		{"what is not", []string{"AWS_SECRET_ACCESS_KEY=x", "HOMEWARD=x", "PEDELEC_HOME=x", "LD_PRELOAD=x"}, nil, nil, defaults},
		{"asked for by name", []string{"KEY=x", "KEYS=y"}, []string{"KEY"}, nil, with("KEY=x")},
		{"asked for by prefix", []string{"OPENCODE_A=x", "OPENCODE=y"}, []string{"OPENCODE_*"}, nil, with("OPENCODE_A=x")},
		{"set by the caller", nil, nil, []string{"A=1", "B=a=b", "C="}, with("A=1", "B=a=b", "C=")},
		{"the caller wins", []string{"PATH=/bin"}, nil, []string{"PATH=/agent", "PATH=/last"}, with("PATH=/last")},
		{"the marks of a surrounding agent", []string{"CLAUDECODE=1", "PEDELEC_RUNTIME=theirs"}, []string{"*"}, []string{"CLAUDECODE_X=1", "PEDELEC_RUNTIME=forged"}, defaults},
		{"what is no variable", []string{"=C:=C:\\", "HOME"}, nil, []string{"", "="}, defaults},
		{
			"a proxy with exceptions", []string{"HTTPS_PROXY=http://p", "NO_PROXY=a.example, localhost"}, nil, nil,
			[]string{"HTTPS_PROXY=http://p", "NO_PROXY=a.example,localhost,127.0.0.1,::1", "no_proxy=a.example,localhost,127.0.0.1,::1", "LANG=C.UTF-8", "PEDELEC_RUNTIME=id"},
		},
		{
			"two lists of exceptions", []string{"NO_PROXY=a", "no_proxy=b"}, nil, nil,
			[]string{"NO_PROXY=a,127.0.0.1,localhost,::1", "no_proxy=b,127.0.0.1,localhost,::1", "LANG=C.UTF-8", "PEDELEC_RUNTIME=id"},
		},
		{
			"a locale", []string{"LC_ALL=de_DE.UTF-8"}, nil, nil,
			[]string{"LC_ALL=de_DE.UTF-8", "NO_PROXY=127.0.0.1,localhost,::1", "no_proxy=127.0.0.1,localhost,::1", "PEDELEC_RUNTIME=id"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := environment(tt.base, tt.inherit, tt.extra, "id"); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestCarriesID(t *testing.T) {
	ids := map[string]bool{"abc": true}
	tests := []struct {
		name, environ string
		want          bool
	}{
		{"empty", "", false},
		{"only", "PEDELEC_RUNTIME=abc\x00", true},
		{"first", "PEDELEC_RUNTIME=abc\x00A=1\x00", true},
		{"last, unterminated", "A=1\x00PEDELEC_RUNTIME=abc", true},
		{"another id", "PEDELEC_RUNTIME=abd\x00", false},
		{"a longer id", "PEDELEC_RUNTIME=abcd\x00", false},
		{"another name", "X_PEDELEC_RUNTIME=abc\x00", false},
		{"in a value", "A=PEDELEC_RUNTIME=abc\x00", false},
		{"in a value, then itself", "A=PEDELEC_RUNTIME=abc\x00PEDELEC_RUNTIME=abc\x00", true},
		{"another id, then ours", "PEDELEC_RUNTIME=old\x00PEDELEC_RUNTIME=abc\x00", true},
		{"no value", "PEDELEC_RUNTIME=", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := carriesID([]byte(tt.environ), ids); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
