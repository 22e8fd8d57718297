package tool

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestArgumentsThatAreAccepted(t *testing.T) {
	const open, defined = `{"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"properties":{"timeoutMs":{"type":"string"}}}`
	nested := strings.Repeat(`{"x":`, MaxArgsDepth-1) + `{}` + strings.Repeat(`}`, MaxArgsDepth-1)
	long := `{"x":"` + strings.Repeat("x", MaxArgsBytes-len(`{"x":""}`)) + `"}`
	tests := []struct {
		name, schema, args, want string
		timeout                  time.Duration
	}{
		{"no members", open, `{}`, `{}`, time.Minute},
		{"as they are written", open, ` {"a" : 1.0} `, ` {"a" : 1.0} `, time.Minute},
		{"a timeout", open, `{"timeoutMs":1500}`, `{}`, 1500 * time.Millisecond},
		{"a timeout before", open, `{"timeoutMs":1,"a":1e0}`, `{"a":1e0}`, time.Millisecond},
		{"a timeout after", open, `{ "a":1 , "timeoutMs":1 }`, `{"a":1}`, time.Millisecond},
		{"a timeout in other spelling", open, `{"timeout\u004ds":7}`, `{}`, 7 * time.Millisecond},
		{"a timeout over the cap", open, `{"timeoutMs":99999999999}`, `{}`, MaxTimeout},
		{"a timeout over all integers", open, `{"timeoutMs":99999999999999999999}`, `{}`, MaxTimeout},
		{"a timeout that the schema defines", defined, `{"timeoutMs":"soon"}`, `{"timeoutMs":"soon"}`, time.Minute},
		{"a timeout further down", `{}`, `{"a":{"timeoutMs":"x"}}`, `{"a":{"timeoutMs":"x"}}`, time.Minute},
		{"odd names", `{}`, `{"timeoutMs":5,"":1,"a\"b":[2],"\u0000":{}}`, `{"":1,"a\"b":[2],"\u0000":{}}`, 5 * time.Millisecond},
		{"the largest exponents", `{}`, `{"a":1e400,"b":-1E-400}`, `{"a":1e400,"b":-1E-400}`, time.Minute},
		{"as deep as allowed", `{}`, nested, nested, time.Minute},
		{"as long as allowed", `{}`, long, long, time.Minute},
		{"a schema that is true", `true`, `{"a":1}`, `{"a":1}`, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call, err := Tool{Name: "paint", Timeout: time.Minute}.CheckArgs(mustCompile(t, tt.schema), jsontext.Value(tt.args), time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if string(call.Args) != tt.want || call.Timeout != tt.timeout || call.Tool != "paint" {
				t.Errorf("got %s of %v with %.200s", call.Tool, call.Timeout, call.Args)
			}
		})
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	const schema = `{
		"properties": {
			"a": {"type": "array", "items": {"type": "integer", "minimum": 3}},
			"s": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["k"]}, false]},
			"x/y": {"properties": {"~": {"const": 1}}},
			"deep": {"$ref": "#"}
		},
		"propertyNames": {"maxLength": 5},
		"maxProperties": 3
	}`
	tests := []struct{ name, args, field, says string }{
		{"nothing", ``, "", ""},
		{"a list", `[]`, "", ""},
		{"null", `null`, "", ""},
		{"a text", `"{}"`, "", ""},
		{"timeout 0", `{"timeoutMs":0}`, "timeoutMs", ""},
		{"a negative timeout", `{"timeoutMs":-5}`, "timeoutMs", ""},
		{"a fractional timeout", `{"timeoutMs":25.0}`, "timeoutMs", ""},
		{"a timeout with an exponent", `{"timeoutMs":1e3}`, "timeoutMs", ""},
		{"a timeout that is no number", `{"timeoutMs":"5"}`, "timeoutMs", ""},
		{"a timeout that is null", `{"timeoutMs":null}`, "timeoutMs", ""},
		{"half an object", `{"a":[1`, "", "not JSON"},
		{"two objects", `{}{}`, "", "follows"},
		{"a member twice", `{"a":[],"a":[]}`, "", "at '/a': it is not JSON: duplicate"},
		{"a byte too many", `{}` + strings.Repeat(" ", MaxArgsBytes-1), "", "524289 bytes"},
		{"a level too deep", strings.Repeat(`{"x":`, MaxArgsDepth) + `{}` + strings.Repeat(`}`, MaxArgsDepth), "", "deeper than 100"},
		{"a thousand levels", `{"x":` + strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000) + `}`, "", "deeper than 100"},
		{"an exponent too great", `{"a":[3,1e401]}`, "", "at '/a/1': the exponent of 1e401"},
		{"an exponent too small", `{"b":{"c":1e-401}}`, "", "at '/b/c': the exponent"},
		{"an exponent beyond integers", `{"b":1e99999999999999999999}`, "", "at '/b': the exponent"},
		{"a million digits", `{"b":1e1000000}`, "", "at '/b': the exponent of 1e1000000"},
		{"a long number", `{"b":` + strings.Repeat("1", MaxNumberBytes+1) + `}`, "", "at '/b': the number has 65"},
		{"a wrong type", `{"a":5}`, "", "at '/a': got number, want array"},
		{"wrong items", `{"a":[3,2,"x"]}`, "", "at '/a/1': minimum: got 2, want 3; at '/a/2': got string, want integer"},
		{"no alternative", `{"s":5}`, "", "at '/s': 'oneOf' failed"},
		{"a place with odd names", `{"x/y":{"~":2}}`, "", "at '/x~1y/~0': value must be 1"},
		{"a place in depth", `{"deep":{"deep":{"a":null}}}`, "", "at '/deep/deep/a': got null, want array"},
		{"a bad name", `{"deep":{"toolong":1}}`, "", "at '/deep/toolong': maxLength"},
		{"more than is told", `{"a":[1,1,1,1,1,1]}`, "", "and 2 more"},
		{"the object itself", `{"1":1,"2":2,"3":3,"4":4}`, "", "at '': maxProperties"},
	}
	s := mustCompile(t, schema)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Tool{Name: "paint"}.CheckArgs(s, jsontext.Value(tt.args), time.Now)
			var refused *fault.Error
			if !errors.As(err, &refused) || refused.Code != fault.ToolArgsInvalid || refused.Details["toolName"] != "paint" {
				t.Fatalf("got %v", err)
			}
			if field, _ := refused.Details["field"].(string); field != tt.field {
				t.Errorf("field %q, want %q", field, tt.field)
			}
			why, told := refused.Details["error"].(string)
			if told != (tt.says != "") || !strings.Contains(why, tt.says) {
				t.Errorf("error %q does not speak of %q", why, tt.says)
			}
		})
	}
}

// Go walks over maps in another order each time; an agent that repeats a call
// reads the same answer.
func TestViolationsAreToldInOrder(t *testing.T) {
	s := mustCompile(t, `{"additionalProperties":{"type":"string"},"required":["z"],"propertyNames":{"maxLength":1}}`)
	args := jsontext.Value(`{"a":1,"bb":2,"c":3,"d":4,"e":5,"f":6}`)
	_, first := Tool{Name: "paint"}.CheckArgs(s, args, time.Now)
	for range 50 {
		if _, err := (Tool{Name: "paint"}).CheckArgs(s, args, time.Now); err.Error() != first.Error() {
			t.Fatalf("now %v\nthen %v", err, first)
		}
	}
}

func TestErrorsRepeatLittleOfTheArguments(t *testing.T) {
	long := strings.Repeat("x", 400_000)
	s := mustCompile(t, `{"properties":{"p":{"pattern":"y"}},"additionalProperties":{"enum":["a"]}}`)
	for _, args := range []string{`{"p":"` + long + `"}`, `{"` + long + `":1}`, `{"` + long + `":1e1000}`} {
		_, err := Tool{Name: "paint"}.CheckArgs(s, jsontext.Value(args), time.Now)
		if err == nil || len(err.Error()) > 4<<10 {
			t.Errorf("%.20s…: error of %d bytes", args, len(err.Error()))
		}
	}
}

func FuzzCheckArgs(f *testing.F) {
	for _, schema := range []string{`{}`, `{"additionalProperties":{"$ref":"#"}}`, `{"properties":{"a":{"uniqueItems":true,"contains":{"enum":[1,"x"]}}},"propertyNames":{"pattern":"^(a+)+$"}}`,
		`{` + draft04 + `"properties":{"a":{"items":[{"type":"integer"}],"additionalItems":false}}}`, `{"unevaluatedProperties":false,"anyOf":[{"properties":{"a":true}}]}`, `{"$dynamicAnchor":"x","properties":{"a":{"items":{"$dynamicRef":"#x","$recursiveRef":"#"},"prefixItems":[{"if":{"type":"integer"},"then":{"not":{"const":2}}}]}},"dependentSchemas":{"a":{"oneOf":[{"minProperties":1},{"$ref":"#/properties/b"}]}}}`} {
		for _, args := range []string{`{}`, `{"a":[1,1.0,"x"],"timeoutMs":5}`, `{"timeoutMs":0}`, `{"a":{"b":[{}]}}`, `{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!":1}`} {
			f.Add([]byte(schema), []byte(args))
		}
	}
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		s, err := Compile("paint", schema)
		if err != nil {
			return
		}
		l := openLedger(s.program)
		call, err := Tool{Name: "paint"}.CheckArgs(s, args, time.Now)
		l.check(t)
		if err != nil {
			if !fault.Is(err, fault.ToolArgsInvalid) {
				t.Fatal(err)
			}
			return
		}
		if !call.Args.IsValid() || call.Args.Kind() != '{' || call.Timeout <= 0 || call.Timeout > MaxTimeout {
			t.Fatalf("%s of %v", call.Args, call.Timeout)
		}
		again, err := Tool{Name: "paint"}.CheckArgs(s, call.Args, time.Now)
		if err != nil && !strings.Contains(err.Error(), " ms") { // patterns may be slower the second time
			t.Fatalf("refused the second time: %v", err)
		}
		if err == nil && again.Key != call.Key {
			t.Fatal("the key changed")
		}
	})
}
