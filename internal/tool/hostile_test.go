package tool

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// list returns items separated by commas, up to a number of bytes; # in item
// stands for its number.
func list(item string, size int) string {
	var b strings.Builder
	for i := 0; b.Len()+len(item)+8 < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(item, "#", fmt.Sprint(i)))
	}
	return b.String()
}

// times returns n copies of item separated by commas.
func times(n int, item string) string {
	return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
}

// chain returns definitions d0 to dn, each of which is the next by form; last
// is dn.
func chain(n int, form, last string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"d%d":%s,`, i, strings.ReplaceAll(form, "NEXT", fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)))
	}
	fmt.Fprintf(&b, `"d%d":%s`, n, last)
	return b.String()
}

// inTime fails the test if f takes longer than a second of the processor, in
// which a page or an agent must have its answer.
func inTime(t *testing.T, f func()) {
	t.Helper()
	spent := cpuTime(f)
	t.Logf("%v", spent)
	if limit := time.Second * slowdown; spent > limit {
		t.Errorf("it took %v", spent)
	}
}

func TestHostileSchemasAreAnsweredInTime(t *testing.T) {
	const whole = MaxSchemaBytes - 100
	tests := []struct{ name, schema, says string }{
		{"a megabyte", `{"title":"` + strings.Repeat("x", 1<<20) + `"}`, "are allowed"},
		{"a megabyte of brackets", strings.Repeat(`[`, 1<<20), "are allowed"},
		{"a thousand levels", strings.Repeat(`{"not":`, 1000) + `{}` + strings.Repeat(`}`, 1000), "deeper than 64"},
		{"a number of a million digits", `{"minimum":1e1000000}`, "exponent"},
		{"a reference to itself", `{"$ref":"#"}`, "without end"},
		{"a long chain of references", `{"$ref":"#/$defs/d0","$defs":{` + chain(1500, `NEXT`, `{}`) + `}}`, "inside each other"},
		{"references to a thousand odd places", `{"allOf":[` + list(`{"$ref":"#/x/#"}`, whole/2) + `],"x":[` + times(3000, `{}`) + `]}`, "are allowed"},
		{"nothing but subschemas", `{"allOf":[` + list(`{}`, whole) + `]}`, "are allowed"},
		// What follows is within the limits.
		{"types", `{"allOf":[` + list(`{"type":"object"}`, whole) + `]}`, ""},
		{"anchors", `{"allOf":[` + list(`{"$anchor":"a#"}`, whole) + `]}`, ""},
		{"dynamic references", `{"$dynamicAnchor":"a","properties":{` + list(`"#":{"$dynamicRef":"\u0023a"}`, whole) + `}}`, ""},
		{"ids", `{"allOf":[` + list(`{"$id":"abcd#"}`, whole) + `]}`, ""},
		{"brackets in a pattern", `{"pattern":"` + strings.Repeat(`(`, 30_000) + strings.Repeat(`)`, 30_000) + `"}`, ""},
		{"alternatives in a pattern", `{"pattern":"` + strings.Repeat(`(a|`, 15_000) + strings.Repeat(`)`, 15_000) + `"}`, ""},
		{"counts in a pattern", `{"pattern":"` + strings.Repeat(`(?:a{1,9999}`, 2500) + strings.Repeat(`){1,9999}`, 2500) + `"}`, ""},
		{"patterns", `{"properties":{` + list(`"#":{"pattern":"(a*)*"}`, whole) + `}}`, ""},
		{"constants", `{"properties":{"a":{"enum":[` + list(`1e400`, whole) + `]}}}`, ""},
		{"all that a draft asks", `{"properties":{` + list(`"#":{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, whole) + `}}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			inTime(t, func() { _, err = Compile("paint", jsontext.Value(tt.schema)) })
			if tt.says == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if !fault.Is(err, fault.ToolsManifestInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHostileArgumentsAreAnsweredInTime(t *testing.T) {
	const (
		whole   = MaxArgsBytes - 100
		steps   = "100000 steps"
		pattern = "patterns take more than 200 ms"
	)
	inA := func(schema string) string { return `{"properties":{"a":` + schema + `}}` }
	inItems := func(schema string) string { return inA(`{"items":` + schema + `}`) }
	objects := func(inner string, levels int) string {
		return strings.Repeat(`{"a":`, levels) + inner + strings.Repeat(`}`, levels)
	}
	var slowTexts []string
	for i := range 40 {
		slowTexts = append(slowTexts, fmt.Sprintf(`"%s!%d"`, strings.Repeat("a", 40), i))
	}
	tests := []struct{ name, schema, args, says string }{
		{"a megabyte", `{}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "are allowed"},
		{"a thousand levels", `{}`, objects(`1`, 1000), "deeper than 100"},
		{"a number of a million digits", `{}`, `{"a":1e1000000}`, "at '/a': the exponent"},
		{"30 doubling references", `{"$ref":"#/$defs/d0","$defs":{` + chain(30, `{"allOf":[NEXT,NEXT]}`, `{"type":"object"}`) + `}}`, `{}`, "at '': the check takes more than " + steps},
		{"30 doubling references to what fails", `{"$ref":"#/$defs/d0","$defs":{` + chain(30, `{"anyOf":[NEXT,NEXT]}`, `{"type":"null"}`) + `}}`, `{}`, steps},
		{"30 doubling references under not", `{"not":{"$ref":"#/$defs/d0"},"$defs":{` + chain(30, `{"oneOf":[NEXT,NEXT]}`, `{"type":"null"}`) + `}}`, `{}`, steps},
		{"30 doubling references in draft 04", `{` + draft04 + `"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{` + chain(30, `{"allOf":[NEXT,NEXT]}`, `{"type":"object"}`) + `}}`, `{}`, steps},
		{"30 doubling dynamic references", `{"$ref":"#/$defs/d0","$defs":{` + strings.ReplaceAll(chain(30, `{"allOf":[NEXT,NEXT]}`, `{"type":"object"}`), `{"$ref"`, `{"$dynamicRef"`) + `}}`, `{}`, steps},
		{"30 doubling recursive references", `{` + draft19 + `"$ref":"#/$defs/d0","$defs":{` + strings.ReplaceAll(chain(30, `{"allOf":[NEXT,NEXT]}`, `{"type":"object"}`), `{"$ref"`, `{"$recursiveRef"`) + `}}`, `{}`, steps},
		{"30 references of two kinds", `{"$ref":"#/$defs/d0","$defs":{` + strings.ReplaceAll(chain(30, `NEXT`, `{"type":"object"}`), `{"$ref":"`, `{"$ref":"#/$defs/d30","$recursiveRef":"`) + `}}`, `{}`, ""},
		{"30 dependent schemas", `{"$ref":"#/$defs/d0","$defs":{` + chain(30, `{"dependentSchemas":{"a":NEXT},"not":{"not":NEXT}}`, `{"type":"object"}`) + `}}`, `{"a":1}`, steps},
		{"30 conditions in draft 07", `{` + draft07 + `"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{` + chain(30, `{"dependencies":{"a":NEXT},"if":NEXT,"else":NEXT}`, `{"type":"object"}`) + `}}`, `{"a":1}`, steps},
		{"30 doubling conditions", `{"$ref":"#/$defs/d0","$defs":{` + chain(30, `{"if":NEXT,"then":NEXT,"else":NEXT}`, `{}`) + `}}`, `{}`, steps},
		{"a recursive reference that doubles", `{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, objects(`1`, 99), steps},
		{"a dynamic reference that doubles", `{"$dynamicAnchor":"x","properties":{"a":{"allOf":[{"$dynamicRef":"#x"},{"$dynamicRef":"#x"}]}}}`, objects(`1`, 99), steps},
		{"a recursive reference of draft 2019-09 that doubles", `{` + draft19 + `"$recursiveAnchor":true,"properties":{"a":{"allOf":[{"$recursiveRef":"#"},{"$recursiveRef":"#"}]}}}`, objects(`1`, 99), steps},
		{"a catastrophic pattern over 40 texts", inItems(`{"pattern":"^(a+)+$"}`), `{"a":[` + strings.Join(slowTexts, ",") + `]}`, pattern},
		{"a catastrophic pattern over 40 names", inA(`{"propertyNames":{"pattern":"^(a+)+$"}}`), `{"a":{` + strings.Join(slowTexts, ":1,") + `:1}}`, pattern},
		{"a catastrophic pattern as a name", `{"patternProperties":{"^(a+)+$":true}}`, `{` + strings.Join(slowTexts, ":1,") + `:1}`, pattern},
		{"a slow pattern over a long text", inA(`{"pattern":"x*x*x*y"}`), `{"a":"` + strings.Repeat("x", whole) + `"}`, "at '/a': the " + pattern},
		{"a quick pattern over many long texts", inA(`{"allOf":[` + times(2000, `{"pattern":"y"}`) + `]}`), `{"a":"` + strings.Repeat("x", whole) + `"}`, pattern},
		{"many subschemas for many items", inItems(`{"allOf":[` + times(2000, `{"type":"null"}`) + `]}`), `{"a":[` + list(`1`, whole) + `]}`, "at '/a': the check takes more than " + steps},
		{"many lengths of a long text", inA(`{"allOf":[` + times(2000, `{"minLength":3}`) + `]}`), `{"a":"` + strings.Repeat("x", whole) + `"}`, steps},
		{"many walks over many members", `{"allOf":[` + times(1000, `{"properties":{"b":{}}}`) + `]}`, `{` + list(`"#":1`, whole) + `}`, steps},
		{"many members without evaluation", `{"allOf":[` + times(1000, `{"properties":{}}`) + `],"unevaluatedProperties":false}`, `{` + list(`"#":1`, whole) + `}`, steps},
		{"many numbers against many", inItems(`{"enum":[` + list(`1e400`, 60_000) + `]}`), `{"a":[` + list(`1e-400`, whole) + `]}`, steps},
		{"many great fractions", inItems(`{"multipleOf":3.3e-400}`), `{"a":[` + list(`1.7e400`, whole) + `]}`, steps},
		{"many great integers", inItems(`{"type":"integer"}`), `{"a":[` + list(`1.7e-400`, whole) + `]}`, steps},
		{"unique items that were made to collide", inA(`{"uniqueItems":true}`), `{"a":[` + collisions(6000) + `]}`, ""},
		{"unique items many times", inA(`{"allOf":[` + times(1000, `{"uniqueItems":true}`) + `]}`), `{"a":[` + list(`"#"`, whole) + `]}`, steps},
		{"a long chain for many items", `{"properties":{"a":{"items":{"$ref":"#/$defs/d0"}}},"$defs":{` + chain(120, `NEXT`, `{"type":"string"}`) + `}}`, `{"a":[` + list(`1`, whole) + `]}`, steps},
		{"a long chain in depth", `{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + chain(120, `NEXT`, `{"$ref":"#"}`) + `}}`, objects(`{}`, 99), ""},
		{"many violations in depth", `{"properties":{"a":{"$ref":"#"},"b":{"items":{"type":"null"}}}}`, objects(`{"b":[`+list(`1`, 40_000)+`]}`, 90), "more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustCompile(t, tt.schema)
			var err error
			inTime(t, func() { _, err = Tool{Name: "paint"}.CheckArgs(s, jsontext.Value(tt.args), time.Now) })
			if tt.says == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			var refused *fault.Error
			if !errors.As(err, &refused) || refused.Code != fault.ToolArgsInvalid {
				t.Fatalf("got %v", err)
			}
			if why, _ := refused.Details["error"].(string); !strings.Contains(why, tt.says) || len(why) > 4<<10 {
				t.Errorf("error %q does not speak of %q", why, tt.says)
			}
		})
	}
}

// collisions returns different items that are one byte string once the marks
// between their texts are forgotten.
func collisions(n int) string {
	var items []string
	for i := range n {
		var b strings.Builder
		b.WriteString(`["a`)
		for bit := range 13 {
			if i>>bit&1 == 1 {
				b.WriteString(`\u0004a`)
			} else {
				b.WriteString(`","a`)
			}
		}
		items = append(items, b.String()+`"]`)
	}
	return strings.Join(items, ",")
}

// The time of patterns is taken from the clock that was passed in.
func TestTimeOfPatternsAddsUp(t *testing.T) {
	s := mustCompile(t, `{"additionalProperties":{"pattern":"a"}}`)
	clock := time.Unix(0, 0)
	slow := func() time.Time {
		clock = clock.Add(MaxPatternTime / 6)
		return clock
	}
	if _, err := (Tool{Name: "paint"}).CheckArgs(s, jsontext.Value(`{"1":"a","2":"a","3":"a"}`), slow); err != nil {
		t.Error(err)
	}
	_, err := Tool{Name: "paint"}.CheckArgs(s, jsontext.Value(`{"x":["no text"],"1":"a","2":"b","3":"c","4":"d","5":"e","6":"f","7":"g"}`), slow)
	if err == nil || !strings.Contains(err.Error(), "patterns take more than 200 ms") {
		t.Errorf("got %v", err)
	}
	// A clock that is set back gives no time.
	back := func() time.Time {
		clock = clock.Add(-time.Hour)
		return clock
	}
	if _, err := (Tool{Name: "paint"}).CheckArgs(s, jsontext.Value(`{"1":"a"}`), back); err != nil {
		t.Error(err)
	}
}

// The budget is for one check, and a check that was stopped leaves the schema
// as it was.
func TestEachCheckHasItsOwnBudget(t *testing.T) {
	s := mustCompile(t, `{"properties":{"a":{"items":{"type":"integer"}},"b":{"items":{"allOf":[`+times(1000, `{"type":"integer"}`)+`]}}}}`)
	for range 3 {
		if _, err := (Tool{Name: "paint"}).CheckArgs(s, jsontext.Value(`{"b":[`+times(101, `1`)+`]}`), time.Now); err == nil {
			t.Error("the budget is not used up")
		}
		if _, err := (Tool{Name: "paint"}).CheckArgs(s, jsontext.Value(`{"a":[`+times(90_000, `1`)+`]}`), time.Now); err != nil {
			t.Error(err)
		}
	}
}

// What ordinary tools do stays far from the budget.
func TestOrdinaryUseFitsTheBudget(t *testing.T) {
	country := `{"enum":[` + list(`"country#"`, 6000) + `]}`
	s := mustCompile(t, `{"properties":{"rows":{"type":"array","items":{"type":"object","required":["id","name"],"additionalProperties":false,"properties":{
		"id":{"type":"integer","minimum":1},"name":{"type":"string","minLength":1,"maxLength":200,"pattern":"^[^\\n]*$"},"country":`+country+`,
		"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true},"shape":{"oneOf":[{"$ref":"#/$defs/circle"},{"$ref":"#/$defs/box"}]}}}}},
		"$defs":{"circle":{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
		"box":{"type":"object","properties":{"kind":{"const":"box"},"w":{"type":"number"},"h":{"type":"number"}},"required":["kind","w","h"]}}}`)
	rows := list(`{"id":1#,"name":"row #","country":"country7","tags":["a","b","#"],"shape":{"kind":"box","w":1.5,"h":2}}`, 200_000)
	if _, err := (Tool{Name: "paint"}).CheckArgs(s, jsontext.Value(`{"rows":[`+rows+`]}`), time.Now); err != nil {
		t.Error(err)
	}
}
