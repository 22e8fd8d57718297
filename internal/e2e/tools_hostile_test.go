package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// answerLimit is how long anything may take to be refused.
const answerLimit = time.Second

// doubling is a schema of references each of which asks for the next one twice:
// 2^n evaluations in a kilobyte.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"object"}}}`, n)
	return b.String()
}

// within runs f and fails the test if the daemon takes longer than it may. What
// counts is its processor's time where the system tells it, since others may use
// the machine.
func within(t *testing.T, d *daemon, what string, f func()) {
	t.Helper()
	before, told := cpuTime(d.cmd.Process.Pid)
	began := time.Now()
	f()
	took := time.Since(began)
	if after, _ := cpuTime(d.cmd.Process.Pid); told {
		took = after - before
	}
	t.Logf("%s: %v", what, took.Round(time.Millisecond))
	if took > answerLimit {
		t.Errorf("%s took %v", what, took)
	}
}

func TestHostileToolsAreAnsweredInTime(t *testing.T) {
	d := start(t, newHome(t))
	c := d.dial()
	create := func(schema string) error {
		skills := object{"guidance": "", "tools": []object{{"name": "x", "description": "d", "argsSchema": jsontext.Value(schema)}}}
		return c.call("create_thread", object{"provider": "opencode", "skills": skills}, nil)
	}
	for _, tt := range []struct{ name, schema, code string }{
		{"almost a megabyte", `{"type":"object","title":"` + strings.Repeat("x", 1_000_000) + `"}`, "TOOLS_MANIFEST_INVALID"},
		{"more levels than a schema may have", strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100), "TOOLS_MANIFEST_INVALID"},
		{"a thousand levels", strings.Repeat(`{"not":`, 1000) + `{}` + strings.Repeat(`}`, 1000), "IPC_UNAVAILABLE"},
		{"a reference to itself", `{"type":"object","$ref":"#"}`, "TOOLS_MANIFEST_INVALID"},
		{"a reference to a file", `{"type":"object","$ref":"file:///etc/passwd"}`, "TOOLS_MANIFEST_INVALID"},
		{"a reference to a device that never answers", `{"type":"object","$ref":"file:///dev/zero"}`, "TOOLS_MANIFEST_INVALID"},
		{"a reference to a server", `{"type":"object","$ref":"http://` + d.info.HTTPEndpoint + `/healthz"}`, "TOOLS_MANIFEST_INVALID"},
		{"a number of a million digits", `{"type":"object","minimum":1e1000000}`, "TOOLS_MANIFEST_INVALID"},
	} {
		within(t, d, tt.name, func() {
			if code := codeOf(create(tt.schema)); code != tt.code {
				t.Errorf("%s: got %s, want %s", tt.name, code, tt.code)
			}
		})
	}

	slow := `{"type":"object","additionalProperties":{"type":"string","pattern":"^(a+)+$"}}`
	var texts []string
	for i := range 40 {
		texts = append(texts, fmt.Sprintf(`"k%d":"%s!"`, i, strings.Repeat("a", 40+i)))
	}
	p := newPage(t, d, object{"skills": object{"guidance": "", "tools": []object{
		{"name": "doubling", "description": "d", "argsSchema": jsontext.Value(doubling(30))},
		{"name": "pattern", "description": "d", "argsSchema": jsontext.Value(slow)},
		{"name": "ask", "description": "d", "argsSchema": object{"type": "object"}},
	}}})
	p.busy()
	for _, tt := range []struct{ name, tool, args, says string }{
		{"30 doubling references", "doubling", `{}`, "steps"},
		{"a catastrophic pattern over 40 strings", "pattern", `{` + strings.Join(texts, ",") + `}`, "pattern"},
		{"a number of a million digits", "ask", `{"n":1e1000000}`, "/n"},
		{"over half a megabyte", "ask", `{"n":"` + strings.Repeat("x", 600_000) + `"}`, "bytes"},
		{"more levels than arguments may have", "ask", `{"n":` + strings.Repeat(`[`, 110) + strings.Repeat(`]`, 110) + `}`, "deeper"},
	} {
		within(t, d, tt.name, func() {
			err := c.call("tool_call", object{"threadId": p.id, "toolName": tt.tool, "args": jsontext.Value(tt.args)}, nil)
			if codeOf(err) != "TOOL_ARGS_INVALID" || !strings.Contains(string(err.(*wireError).Details), tt.says) {
				t.Errorf("%s: got %v", tt.name, err)
			}
		})
	}
	p.quiet("tool_call")
	d.pong()
}
