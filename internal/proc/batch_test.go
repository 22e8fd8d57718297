package proc

import (
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestBatchCommandLine(t *testing.T) {
	const shell, script = `C:\Windows\System32\cmd.exe`, `C:\Program Files\npm\opencode.cmd`
	tests := []struct {
		name string
		args []string
		want string // "" = refused
	}{
		{"no arguments", nil, `"C:\Windows\System32\cmd.exe" /d /c call "C:\Program Files\npm\opencode.cmd"`},
		{"arguments", []string{"acp", "--dir", `C:\a b`}, `"C:\Windows\System32\cmd.exe" /d /c call "C:\Program Files\npm\opencode.cmd" "acp" "--dir" "C:\a b"`},
		{"an empty argument", []string{""}, `"C:\Windows\System32\cmd.exe" /d /c call "C:\Program Files\npm\opencode.cmd" ""`},
		{"signs that quotes disarm", []string{"a&b|c>d<e(f)"}, `"C:\Windows\System32\cmd.exe" /d /c call "C:\Program Files\npm\opencode.cmd" "a&b|c>d<e(f)"`},
		{"a quote", []string{`a"&calc`}, ""},
		{"a variable", []string{"%PATH%"}, ""},
		{"a delayed variable", []string{"!PATH!"}, ""},
		{"a caret", []string{"a^b"}, ""},
		{"a line break", []string{"a\nb"}, ""},
		{"a final backslash", []string{`C:\`}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := batchCommandLine(shell, script, tt.args)
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if refused := fault.Is(err, fault.ProviderRuntimeStartFailed); refused != (tt.want == "") {
				t.Errorf("error %v", err)
			}
		})
	}
	for path, want := range map[string]bool{"a.cmd": true, "A.BAT": true, "a.exe": false, "cmd": false} {
		if isBatch(path) != want {
			t.Errorf("isBatch(%q) = %v", path, !want)
		}
	}
}
