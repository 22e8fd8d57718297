package provider

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// FuzzCollect reads the inputs of agents' tools: a path or a command in one is
// found, wherever it stands, or the question is refused.
func FuzzCollect(f *testing.F) {
	for _, input := range []string{
		`{"file_path":"a.txt"}`, `{"script":"pedelec-cli tool-spec add"}`, `{"file_path":"/etc/passwd"}`, `{"edits":[{"path":"a"},{"newPath":"/b"}]}`, `{"command":"rm -rf /"}`,
		`{"command":["rm","-rf"]}`, `{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"path":"/x"}}}}}}}}}`, `{"path":"a","path":"/b"}`, `[]`, `{"cmd":7}`,
	} {
		f.Add(input)
	}
	ws := f.TempDir()
	f.Fuzz(func(t *testing.T, input string) {
		v := jsontext.Value(input)
		if !v.IsValid() || v.Kind() != '{' {
			return // agents' frames are checked before
		}
		alone := ask(v)
		if len(alone.Paths) > maxPaths {
			t.Fatalf("%d paths", len(alone.Paths))
		}
		hostile := ask(jsontext.Value(`{"outer":[` + input + `,{"path":"/etc/passwd"}]}`))
		if p := (Policy{Permission: thread.PermitWorkspace, Workspace: ws}); p.Allows(hostile) {
			t.Fatalf("beside %s a path outside is allowed: %+v", input, hostile)
		}
		if p := (Policy{Permission: thread.PermitReadOnly, Workspace: ws}); p.Allows(hostile) {
			t.Fatalf("beside %s a path is allowed to one who may only read: %+v", input, hostile)
		}
		runs := ask(jsontext.Value(`{"outer":[` + input + `,{"command":"rm x"}]}`))
		if p := (Policy{Permission: thread.PermitWorkspace, Workspace: ws}); p.Allows(runs) && !strings.Contains(input, cliName) {
			t.Fatalf("beside %s a command is allowed: %+v", input, runs)
		}
	})
}

func ask(input jsontext.Value) (q Question) {
	q.Collect(input)
	return q
}
