package provider

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestShellCommandsOtherThanOneSimplePedelecCliAreRefused(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	link := filepath.Join(bin, cliName)
	tests := []struct {
		command string
		allowed bool
	}{
		{`pedelec-cli --thread-id t tool-spec add`, true},
		{`  pedelec-cli tool-spec add  `, true},
		{link + ` --thread-id t tool-call add '{"a":1,"b":"x y"}'`, true},
		{`pedelec-cli tool-call add "{\"a\":1}"`, true},
		{`pedelec-cli tool-call add '{"cost":"5$; rm -rf ~ | cat > x"}'`, runtime.GOOS != "windows"},
		{`'pedelec-cli' tool-spec add`, true},
		{`pedelec""-cli tool-spec add`, true},
		{`pedelec-cli`, true},

		{``, false},
		{`   `, false},
		{`rm -rf x; pedelec-cli tool-spec add`, false},
		{`pedelec-cli tool-spec add; rm -rf x`, false},
		{`pedelec-cli tool-spec add && rm -rf x`, false},
		{`pedelec-cli tool-spec add & rm -rf x`, false},
		{`pedelec-cli tool-spec add || rm -rf x`, false},
		{`pedelec-cli tool-spec add | sh`, false},
		{`pedelec-cli $(rm -rf x)`, false},
		{`pedelec-cli "$(rm -rf x)"`, false},
		{"pedelec-cli `rm -rf x`", false},
		{"pedelec-cli \"`rm -rf x`\"", false},
		{`pedelec-cli$(rm -rf x)`, false},
		{`pedelec-cli $HOME`, false},
		{`pedelec-cli "$HOME"`, false},
		{`pedelec-cli ${IFS}x`, false},
		{"pedelec-cli a\nrm -rf x", false},
		{"pedelec-cli 'a\nb'", false},
		{"pedelec-cli a\r\nrm -rf x", false},
		{"pedelec-cli a\x00b", false},
		{`pedelec-cli > /etc/passwd`, false},
		{`pedelec-cli < /etc/passwd`, false},
		{`pedelec-cli <(rm -rf x)`, false},
		{`pedelec-cli 2>x`, false},
		{`PATH=/evil pedelec-cli tool-spec add`, false},
		{`env pedelec-cli tool-spec add`, false},
		{`sudo pedelec-cli tool-spec add`, false},
		{`sh -c 'pedelec-cli tool-spec add'`, false},
		{`pedelec-cli 'unterminated`, false},
		{`pedelec-cli "unterminated`, false},
		{`pedelec-cli "trailing\`, false},
		{`pedelec-cli \; rm -rf x`, false},
		{`pedelec-cli 'a'\''b' ; x`, false},
		{`pedelec-cli *`, false},
		{`pedelec-cli {a,b}`, false},
		{`pedelec-cli ~/x`, false},
		{`pedelec-cli !!`, false},
		{`pedelec-cli # x`, false},
		{`(pedelec-cli x)`, false},
		{`./pedelec-cli x`, false},
		{`/tmp/pedelec-cli x`, false},
		{bin + `/../pedelec-cli x`, false},
		{`pedelec-cli-evil x`, false},
		{`echo pedelec-cli`, false},
	}
	for _, permission := range []thread.Permission{thread.PermitWorkspace, thread.PermitReadOnly} {
		p := Policy{Permission: permission, Workspace: t.TempDir(), BinDir: bin}
		for _, tt := range tests {
			if got := p.Allows(Question{Shell: true, Commands: []string{tt.command}}); got != tt.allowed {
				t.Errorf("%s: %q allowed = %v, want %v", permission, tt.command, got, tt.allowed)
			}
		}
	}
}

// TestACommandThatPowerShellSplitsIsSeen: it ends a quote at \" and at typographic
// quotes, so that what stands behind them was run.
func TestACommandThatPowerShellSplitsIsSeen(t *testing.T) {
	for command, split := range map[string]bool{
		`pedelec-cli tool-call add "{\"a\":1}"`:           false,
		`pedelec-cli tool-call add '{"a":"(1; 2)"}'`:      false,
		`pedelec-cli "a\"; rm x; \"b"`:                    true,
		`pedelec-cli "a\" (rm x) \"b"`:                    true,
		"pedelec-cli '\u2019; rm x; \u2018'":              true,
		"pedelec-cli \"\u201d (rm x) \u201c\"":            true,
		`pedelec-cli tool-call add '{"a":"x" & rm x"}'`:   true,
		`pedelec-cli tool-call add '{"a":"100%PATH%"}'`:   true,
		`pedelec-cli "C:\\folder\\" '{"a":"no (quote)"}'`: true, // \\" could be told apart, but why
	} {
		if got := isSplitByWindows(command); got != split {
			t.Errorf("%s: %v, want %v", command, got, split)
		}
	}
}

func TestACommandIsJudgedWholeWhateverPathsItNames(t *testing.T) {
	ws := t.TempDir()
	p := Policy{Permission: thread.PermitWorkspace, Workspace: ws}
	tests := []struct {
		name    string
		q       Question
		allowed bool
	}{
		{"a shell question without a command", Question{Shell: true, Paths: []string{ws}}, false},
		{"a command inside the workspace", Question{Commands: []string{"cat x"}, Paths: []string{ws}}, false},
		{"two commands, one hostile", Question{Commands: []string{"pedelec-cli x", "rm x"}}, false},
		{"words", Question{Argvs: [][]string{{"pedelec-cli", "tool-call", "add", "{}; rm"}}}, true},
		{"words of another program", Question{Argvs: [][]string{{"bash", "-c", "pedelec-cli"}}}, false},
		{"our command in an edit elsewhere", Question{Commands: []string{"pedelec-cli x"}, Paths: []string{"/etc/passwd"}}, false}, // was allowed
		{"our command in an edit of the workspace", Question{Commands: []string{"pedelec-cli x"}, Paths: []string{ws}}, true},
		{"our command in a shell elsewhere", Question{Shell: true, Commands: []string{"pedelec-cli x"}, Paths: []string{"/tmp"}}, true},
		{"no words", Question{Argvs: [][]string{{}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := p.Allows(tt.q); got != tt.allowed {
				t.Errorf("allowed = %v, want %v", got, tt.allowed)
			}
		})
	}
}

func TestPathsMustAllLieInTheWorkspaceWithLinksResolved(t *testing.T) {
	outside, base := t.TempDir(), t.TempDir()
	ws := filepath.Join(base, "ws")
	mustDo(t, os.MkdirAll(filepath.Join(ws, "sub"), 0o700))
	mustDo(t, os.WriteFile(filepath.Join(ws, "file"), nil, 0o600))
	mustDo(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
	mustDo(t, os.Mkdir(filepath.Join(base, "ws-twin"), 0o700))
	for link, target := range map[string]string{
		"out":      outside,
		"in":       filepath.Join(ws, "sub"),
		"dangling": filepath.Join(outside, "not-yet"),
		"loop":     filepath.Join(ws, "loop"),
	} {
		if err := os.Symlink(target, filepath.Join(ws, link)); err != nil {
			t.Skipf("this system makes no symbolic links: %v", err)
		}
	}
	alias := filepath.Join(base, "alias")
	mustDo(t, os.Symlink(ws, alias))

	p := Policy{Permission: thread.PermitWorkspace, Workspace: ws}
	tests := []struct {
		path    string
		allowed bool
	}{
		{ws, true},
		{ws + "/file", true},
		{ws + "/new/deep/file", true},
		{"file", true},
		{"sub/new", true},
		{"file/nothing-is-below-a-file", true},
		{ws + "/in/new", true},
		{alias + "/file", true},
		{ws + "/..hidden", true},
		{ws + "/sub/../file", true},

		{"", false},
		{outside, false},
		{outside + "/secret", false},
		{ws + "/out/secret", false},
		{ws + "/out/new", false},
		{ws + "/dangling", false},
		{ws + "/dangling/x", false},
		{ws + "/loop", false},
		{ws + "-twin", false},
		{ws + "-twin/x", false},
		{ws + "/..", false},
		{ws + "/../ws-twin", false},
		{ws + "/in/../../x", false},
		{ws + "/out/../x", false},
		{ws + "/new/../../x", false},
		{"../x", false},
		{"~/x", false},
		{"~", false},
		{"file:///etc/passwd", false},
		{"/etc/passwd", false},
		{"/", false},
		{ws + "/a\x00b", false},
	}
	for _, tt := range tests {
		if got := p.Allows(Question{Paths: []string{tt.path}}); got != tt.allowed {
			t.Errorf("%q allowed = %v, want %v", tt.path, got, tt.allowed)
		}
		if !tt.allowed && p.Allows(Question{Paths: []string{ws, tt.path}}) {
			t.Errorf("%q hides behind a good path", tt.path)
		}
	}
}

// TestAStepUpBehindALinkIsJudgedAsAgentsTakeIt: the system follows a link before it
// steps up, most agents clean the path before they ask the system. Behind a link that
// leads deeper into the workspace the second leaves it, and was allowed.
func TestAStepUpBehindALinkIsJudgedAsAgentsTakeIt(t *testing.T) {
	ws := filepath.Join(t.TempDir(), "ws")
	mustDo(t, os.MkdirAll(filepath.Join(ws, "a", "b", "c"), 0o700))
	if err := os.Symlink(filepath.Join(ws, "a", "b", "c"), filepath.Join(ws, "deep")); err != nil {
		t.Skipf("this system makes no symbolic links: %v", err)
	}
	p := Policy{Permission: thread.PermitWorkspace, Workspace: ws}
	for path, allowed := range map[string]bool{
		"deep/../x":             true,
		"deep/../../x":          false,
		ws + "/deep/../../x":    false,
		"a/b/c/../../x":         true,
		"deep/../../../ws/file": false,
	} {
		if got := p.Allows(Question{Paths: []string{path}}); got != allowed {
			t.Errorf("%q allowed = %v, want %v", path, got, allowed)
		}
	}
}

// TestAPathThatAnAgentReadsDifferentlyIsRefused: agents take white space from the ends
// of a path, and file: without slashes for an address. Both passed for odd names in
// the workspace.
func TestAPathThatAnAgentReadsDifferentlyIsRefused(t *testing.T) {
	p := Policy{Permission: thread.PermitWorkspace, Workspace: t.TempDir()}
	for _, path := range []string{" /etc/passwd", "\t/etc/passwd", "\ufeff/etc/passwd", "\u00a0~/x", "x\n", "file:/etc/passwd", "FILE:/etc/passwd"} {
		if p.Allows(Question{Paths: []string{path}}) {
			t.Errorf("%q is allowed", path)
		}
	}
	if !p.Allows(Question{Paths: []string{"a name with spaces"}}) {
		t.Error("spaces within a name are refused")
	}
}

func TestPermissionWidensAndNarrows(t *testing.T) {
	ws := t.TempDir()
	edit, read := Question{Paths: []string{ws}}, Question{Reads: true, Paths: []string{ws}}
	far := Question{Reads: true, Paths: []string{"/etc"}}
	nothing := Question{}
	tests := []struct {
		permission                thread.Permission
		edit, read, far, nothings bool
	}{
		{thread.PermitWorkspace, true, true, false, false},
		{thread.PermitReadOnly, false, true, false, false},
		{thread.PermitFull, true, true, true, true},
	}
	for _, tt := range tests {
		p := Policy{Permission: tt.permission, Workspace: ws}
		got := [4]bool{p.Allows(edit), p.Allows(read), p.Allows(far), p.Allows(nothing)}
		if want := [4]bool{tt.edit, tt.read, tt.far, tt.nothings}; got != want {
			t.Errorf("%s: edit, read, far, nothing = %v, want %v", tt.permission, got, want)
		}
	}
}

func FuzzSimpleCommandNeverLetsMetaBytesThroughUnquoted(f *testing.F) {
	f.Add(`pedelec-cli 'a' "b\"c" d`)
	f.Add(`pedelec-cli $(x)`)
	for _, special := range special {
		f.Add("pedelec-cli a" + string(special) + "b")
	}
	f.Fuzz(func(t *testing.T, command string) {
		words, ok := simpleCommand(command)
		if !ok {
			return
		}
		if len(words) == 0 {
			t.Fatal("a command without words")
		}
		if strings.ContainsAny(unquoted(command), special) {
			t.Fatalf("%q is taken for simple", command)
		}
		var quoted strings.Builder // as a shell is sure to take each word
		for _, word := range words {
			quoted.WriteString(" '" + strings.ReplaceAll(word, "'", `'"'"'`) + "'")
		}
		if again, ok := simpleCommand(quoted.String()); !ok || !slices.Equal(again, words) {
			t.Fatalf("%q has the words %q, which are %q when they are quoted", command, words, again)
		}
	})
}

// special are the characters that a shell does not take as they are, by POSIX 2.2, and
// what bash adds.
const special = "|&;<>()$`\\\n*?[#~!{}"

// unquoted is what of a command stands outside of quotes.
func unquoted(command string) string {
	var plain strings.Builder
	quote, escaped := byte(0), false
	for _, c := range []byte(command) {
		switch {
		case escaped:
			escaped = false
		case quote == '"' && c == '\\':
			escaped = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0:
			plain.WriteByte(c)
		}
	}
	return plain.String()
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
