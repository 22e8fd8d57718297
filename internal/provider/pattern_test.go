package provider

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// asked is a question whose pattern is judged, too, of an agent that reads.
func asked(input string) Question {
	q := Question{Reads: true}
	q.Collect(jsontext.Value(input))
	q.CollectPattern(jsontext.Value(input))
	return q
}

// TestAPatternThatLeadsOutInDisguiseIsRefused: two dots or a leading slash that come
// about only when braces are resolved, or an escape or a pair of brackets is taken
// away, were names in the workspace.
func TestAPatternThatLeadsOutInDisguiseIsRefused(t *testing.T) {
	ws := t.TempDir()
	mustDo(t, os.Mkdir(filepath.Join(ws, "src"), 0o700))
	p := Policy{Permission: thread.PermitWorkspace, Workspace: ws}
	tests := []struct {
		pattern string
		allowed bool
	}{
		{"**/*.{go,md}", true},
		{"*", true},
		{"src/{a,b/{c,d}}/*.{,m}js", true},
		{"app/[...slug]/*.tsx", true},
		{"[a-z]*/[!.]x", true},
		{"...", true},
		{"a..b/*", true},
		{"file{1..3}", true},
		{"{src}/*", true},
		{`a\.b/*`, true},

		{"../*", false},
		{"{/etc,src}/*", false},
		{"(/etc|src)/*", false},
		{".{.,x}/*", false},
		{"{.,x}./*", false},
		{"{.,x}{.,y}/*", false},
		{"src/.{.,x}/.{.,x}/*", false},
		{"{,x}/etc/*", false},
		{"{,{,x}}/etc/*", false},
		{"{.{.,x},y}/*", false},
		{"{..}/*", false},
		{"{,x}~/*", false},
		{`\.\./*`, false},
		{`\/etc/*`, false},
		{"[.][.]/*", false},
		{".[.]/*", false},
		{"[/]etc/*", false},
		{`{.\{x,.}./y\}`, false},
		{"{.,x", false},
		{"x}", false},
		{" /etc/*", false},
		{"", false},
		{strings.Repeat("{a,b}", 20), false},
		{strings.Repeat("a", maxPatternBytes+1), false},
	}
	for _, tt := range tests {
		for _, form := range []string{`{"pattern":%s}`, `{"glob":[%s],"path":"src"}`, `{"input":{"patterns":[%s]},"path":"src"}`} {
			text, err := jsontext.AppendQuote(nil, tt.pattern)
			mustDo(t, err)
			input := fmt.Sprintf(form, text)
			q := asked(input)
			if got := p.Allows(q); got != tt.allowed {
				t.Errorf("%s allowed = %v, want %v; it leads to %q", input, got, tt.allowed, q.Paths)
			}
		}
	}
	for _, input := range []string{`{"pattern":7,"path":"src"}`, `{"pattern":[7],"path":"src"}`, `{"a":[[{"pattern":"/etc/*"}]],"path":"src"}`} {
		if q := asked(input); p.Allows(q) {
			t.Errorf("%s is allowed; it leads to %q", input, q.Paths)
		}
	}
}

// TestAHostilePatternCostsLittle: braces within braces do not multiply without end.
func TestAHostilePatternCostsLittle(t *testing.T) {
	begin := time.Now()
	for _, pattern := range []string{
		strings.Repeat("{", 2000) + strings.Repeat("}", 2000),
		strings.Repeat("{,", 1000) + strings.Repeat("}", 1000),
		strings.Repeat("{a,b}", 800),
		"{" + strings.Repeat(",", 4000) + "}",
	} {
		if _, ok := readings(pattern); ok {
			t.Errorf("%.20q is taken for a pattern", pattern)
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestTooManyPathsAreRefusedWithWhatIsAddedToThem: more than can be looked at counted
// as none, which with a pattern, or a command of ours, was allowed.
func TestTooManyPathsAreRefusedWithWhatIsAddedToThem(t *testing.T) {
	p := Policy{Permission: thread.PermitWorkspace, Workspace: t.TempDir()}
	many := `[` + strings.Repeat(`"a",`, maxPaths) + `"/etc/passwd"]`
	for _, input := range []string{
		`{"files":` + many + `}`,
		`{"files":` + many + `,"pattern":"*"}`,
		`{"input":{"files":` + many + `},"pattern":"*"}`,
		`{"files":` + many + `,"command":"pedelec-cli tool-spec add"}`,
	} {
		if p.Allows(asked(input)) {
			t.Errorf("%.40s... is allowed", input)
		}
	}
}

// TestAPathInAnArrayOfArraysIsSeen: only objects and arrays of objects were looked
// into.
func TestAPathInAnArrayOfArraysIsSeen(t *testing.T) {
	p := Policy{Permission: thread.PermitWorkspace, Workspace: t.TempDir()}
	for _, input := range []string{
		`{"path":"a","edits":[[{"path":"/etc/passwd"}]]}`,
		`{"paths":["a",["/etc/passwd"]]}`,
		`{"path":"a","deep":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`,
	} {
		if p.Allows(ask(jsontext.Value(input))) {
			t.Errorf("%s is allowed", input)
		}
	}
}
