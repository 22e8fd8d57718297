package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

var anyObject = jsontext.Value(`{"type":"object"}`)

func named(name string) Tool {
	return Tool{Name: name, Description: "Does something.", ArgsSchema: anyObject}
}

func many(n int) []Tool {
	tools := make([]Tool, n)
	for i := range tools {
		tools[i] = named(fmt.Sprintf("tool%d", i))
	}
	return tools
}

func TestManifestThatIsAccepted(t *testing.T) {
	with := func(change func(*Tool)) Skills {
		t := named("paint")
		change(&t)
		return Skills{Tools: []Tool{t}}
	}
	tests := []struct {
		name   string
		skills Skills
	}{
		{"nothing", Skills{}},
		{"guidance alone", Skills{Guidance: "Help."}},
		{"as many tools as allowed", Skills{Tools: many(MaxTools)}},
		{"the longest name", with(func(t *Tool) { t.Name = strings.Repeat("n", MaxNameBytes) })},
		{"every character of a name", with(func(t *Tool) { t.Name = "Az09_.-" })},
		{"a name of one letter", with(func(t *Tool) { t.Name = "x" })},
		{"the largest schema", with(func(t *Tool) {
			t.ArgsSchema = jsontext.Value(string(anyObject) + strings.Repeat(" ", MaxSchemaBytes-len(anyObject)))
		})},
		{"the largest manifest", with(func(t *Tool) {
			t.Description = strings.Repeat("d", MaxManifest-len("paint")-len(anyObject))
		})},
		{"names that differ in case", Skills{Tools: []Tool{named("paint"), named("Paint")}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.skills.Check()
			if err != nil {
				t.Fatal(err)
			}
			if got.Guidance != tt.skills.Guidance || len(got.Tools) != len(tt.skills.Tools) {
				t.Errorf("the checked manifest is another one: %d tools", len(got.Tools))
			}
		})
	}
}

func TestManifestThatIsRefused(t *testing.T) {
	with := func(change func(*Tool)) []Tool {
		t := named("paint")
		change(&t)
		return []Tool{named("first"), t}
	}
	long := strings.Repeat("n", MaxNameBytes+1)
	tests := []struct {
		name     string
		skills   Skills
		toolName string
		says     string
	}{
		{"one tool too many", Skills{Tools: many(MaxTools + 1)}, "", "256 tools"},
		{"no name", Skills{Tools: with(func(t *Tool) { t.Name = "" })}, "", "name"},
		{"a name that begins with a digit", Skills{Tools: with(func(t *Tool) { t.Name = "1st" })}, "1st", "name"},
		{"a name with a space", Skills{Tools: with(func(t *Tool) { t.Name = "a b" })}, "a b", "name"},
		{"a name with a line end", Skills{Tools: with(func(t *Tool) { t.Name = "a\n" })}, "a\n", "name"},
		{"a name that is not ASCII", Skills{Tools: with(func(t *Tool) { t.Name = "zähle" })}, "zähle", "name"},
		{"a name that is too long", Skills{Tools: with(func(t *Tool) { t.Name = long })}, long[:MaxNameBytes], "name"},
		{"a long name, shown between code points", Skills{Tools: with(func(t *Tool) { t.Name = "x" + strings.Repeat("ä", MaxNameBytes) })}, "x" + strings.Repeat("ä", MaxNameBytes/2-1), "name"},
		{"no description", Skills{Tools: with(func(t *Tool) { t.Description = "" })}, "paint", "description"},
		{"a blank description", Skills{Tools: with(func(t *Tool) { t.Description = " \t\n" })}, "paint", "description"},
		{"a name twice", Skills{Tools: with(func(t *Tool) { t.Name = "first" })}, "first", "Two tools"},
		{"a schema one byte too large", Skills{Tools: with(func(t *Tool) { t.ArgsSchema = jsontext.Value(strings.Repeat(" ", MaxSchemaBytes+1)) })}, "paint", "argsSchema"},
		{"a negative timeout", Skills{Tools: with(func(t *Tool) { t.Timeout = -time.Millisecond })}, "paint", "timeoutMs"},
		{"a manifest one byte too large", Skills{
			Guidance: strings.Repeat("g", MaxManifest-len("paint")-len("Does something.")-len(anyObject)+1),
			Tools:    []Tool{named("paint")},
		}, "", "bytes"},
		{"guidance alone that is too large", Skills{Guidance: strings.Repeat("g", MaxManifest+1)}, "", "bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.skills.Check()
			var refused *fault.Error
			if !errors.As(err, &refused) || refused.Code != fault.ToolsManifestInvalid {
				t.Fatalf("got %v", err)
			}
			if refused.Details["toolName"] != tt.toolName {
				t.Errorf("toolName %q, want %q", refused.Details["toolName"], tt.toolName)
			}
			if why, _ := refused.Details["error"].(string); !strings.Contains(why, tt.says) || refused.Message() == "" {
				t.Errorf("error %q does not speak of %q", why, tt.says)
			}
			if len(got.Tools) != 0 || got.Guidance != "" {
				t.Error("a refused manifest is returned in part")
			}
		})
	}
}

// The first broken rule is the one that is told.
func TestRulesAreAppliedInOrder(t *testing.T) {
	all := Tool{Name: "1", Timeout: -1, ArgsSchema: jsontext.Value(strings.Repeat(" ", MaxSchemaBytes+1))}
	repairs := []struct {
		says   string
		repair func(*Tool)
	}{
		{"name", func(t *Tool) { t.Name = "paint" }},
		{"description", func(t *Tool) { t.Description = "Paints." }},
		{"Two tools", func(t *Tool) { t.Name = "other" }},
		{"argsSchema", func(t *Tool) { t.ArgsSchema = anyObject }},
		{"timeoutMs", func(t *Tool) { t.Timeout = 0 }},
	}
	for _, r := range repairs {
		_, err := Skills{Tools: []Tool{named("paint"), all, named("0")}}.Check()
		if err == nil || !strings.Contains(err.Error(), r.says) {
			t.Fatalf("got %v, want one that speaks of %q", err, r.says)
		}
		r.repair(&all)
	}
	if _, err := (Skills{Tools: []Tool{named("paint"), all}}).Check(); err != nil {
		t.Errorf("repaired: %v", err)
	}
}

func TestTimeouts(t *testing.T) {
	tests := []struct{ in, want time.Duration }{
		{0, DefaultTimeout},
		{time.Millisecond, time.Millisecond},
		{MaxTimeout, MaxTimeout},
		{MaxTimeout + time.Millisecond, MaxTimeout},
		{1 << 62, MaxTimeout},
	}
	for _, tt := range tests {
		in := named("paint")
		in.Timeout = tt.in
		got, err := Skills{Tools: []Tool{in}}.Check()
		if err != nil || got.Tools[0].Timeout != tt.want {
			t.Errorf("%v becomes %v (%v), want %v", tt.in, got.Tools, err, tt.want)
		}
	}
}

func TestCheckChangesACopy(t *testing.T) {
	tools := []Tool{named("paint")}
	got, err := Skills{Tools: tools}.Check()
	if err != nil {
		t.Fatal(err)
	}
	if tools[0].Timeout != 0 || slices.Equal(tools[0].ArgsSchema, nil) {
		t.Errorf("the original is now %+v", tools[0])
	}
	got.Tools[0].Name = "other"
	if tools[0].Name != "paint" {
		t.Error("the copy shares its tools with the original")
	}
}
