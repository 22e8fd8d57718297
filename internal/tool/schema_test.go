package tool

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

const (
	draft04 = `"$schema":"http://json-schema.org/draft-04/schema#",`
	draft06 = `"$schema":"http://json-schema.org/draft-06/schema#",`
	draft07 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	draft19 = `"$schema":"https://json-schema.org/draft/2019-09/schema",`
	draft20 = `"$schema":"https://json-schema.org/draft/2020-12/schema",`
)

func mustCompile(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := Compile("paint", jsontext.Value(schema))
	if err != nil {
		t.Fatalf("%.200s: %v", schema, err)
	}
	return s
}

func TestSchemaThatIsAccepted(t *testing.T) {
	nested := func(levels int) string {
		return strings.Repeat(`{"x":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1)
	}
	tests := []struct{ name, schema string }{
		{"everything", `{}`},
		{"true", `true`},
		{"an object", `{"type":"object"}`},
		{"an object or null", `{"type":["object","null"]}`},
		{"no type", `{"properties":{"a":{}}}`},
		{"draft 04", `{` + draft04 + `"properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`},
		{"draft 04 over https, without a fragment", `{"$schema":"https://json-schema.org/draft-04/schema"}`},
		{"draft 06", `{` + draft06 + `"properties":{"a":{"const":1}}}`},
		{"draft 07", `{` + draft07 + `"if":{"required":["a"]},"then":{"required":["b"]}}`},
		{"draft 2019-09", `{` + draft19 + `"$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}}}`},
		{"draft 2020-12", `{` + draft20 + `"properties":{"a":{"prefixItems":[{}]}}}`},
		{"a list of items in the draft that had it", `{` + draft07 + `"properties":{"a":{"items":[{}]}}}`},
		{"unknown keywords of any kind", `{"x-order":[1,{"y":null}],"properties":{"a":{"nullable":"perhaps"}}}`},
		{"the schema of a draft", `{"properties":{"a":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`},
		{"a reference to itself through a member", `{"properties":{"child":{"$ref":"#"}}}`},
		{"a reference by anchor", `{"properties":{"a":{"$ref":"#it"}},"$defs":{"it":{"$anchor":"it"}}}`},
		{"a reference to an odd place", `{"properties":{"a":{"$ref":"#/components/x"}},"components":{"x":{"type":"string"}}}`},
		{"an id at an address that is never asked", `{"$id":"https://example.invalid/a","properties":{"a":{"$ref":"a#/$defs/b"}},"$defs":{"b":{}}}`},
		{"a long enum", `{"properties":{"a":{"enum":[0` + strings.Repeat(`,"abc"`, 10_000) + `]}}}`},
		{"as deep as allowed", nested(MaxSchemaDepth)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { mustCompile(t, tt.schema) })
	}
}

func TestSchemaThatIsRefused(t *testing.T) {
	far := func(refs int) string {
		var all, places strings.Builder
		for i := range refs {
			fmt.Fprintf(&all, `{"$ref":"#/x/%d"},`, i)
			places.WriteString(`{},`)
		}
		return `{"allOf":[` + all.String() + `{}],"x":[` + places.String() + `{}]}`
	}
	chain := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range maxChain {
		chain += fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	chain += fmt.Sprintf(`"d%d":{"type":"object"}}}`, maxChain)

	tests := []struct{ name, schema, says string }{
		{"nothing", ``, "not JSON"},
		{"half a schema", `{"type":`, "not JSON"},
		{"two schemas", `{}{}`, "follows"},
		{"a member twice", `{"type":"object","type":"object"}`, "at '/type': it is not JSON: duplicate"},
		{"text that is not UTF-8", "{\"title\":\"\xff\"}", "not JSON"},
		{"null", `null`, "object or true"},
		{"a list", `[]`, "object or true"},
		{"false", `false`, "false describes no object"},
		{"a string", `{"type":"string"}`, "at '/type': the root"},
		{"types without object", `{"type":["array","null"]}`, "at '/type': the root"},
		{"an unknown type", `{"properties":{"a":{"type":"text"}}}`, "at '/properties/a/type'"},
		{"a keyword of the wrong type", `{"required":"a"}`, "at '/required': got string, want array"},
		{"an annotation of the wrong type", `{"description":5}`, "at '/description'"},
		{"an annotation of the wrong type, draft 2019-09", `{` + draft19 + `"examples":5}`, "at '/examples'"},
		{"an annotation of the wrong type, draft 07", `{` + draft07 + `"title":5}`, "at '/title'"},
		{"a list of items in a draft without it", `{"properties":{"a":{"items":[{}]}}}`, "at '/properties/a/items'"},
		{"a boolean exclusiveMinimum after draft 04", `{` + draft06 + `"exclusiveMinimum":true}`, "exclusiveMinimum"},
		{"a pattern that is none", `{"properties":{"a":{"pattern":"("}}}`, "at '/properties/a/pattern'"},
		{"an unknown draft", `{"$schema":"http://json-schema.org/draft-03/schema#"}`, "at '/$schema'"},
		{"a draft of one's own", `{"$schema":"https://example.invalid/schema"}`, "at '/$schema'"},
		{"a draft that is no string", `{"$schema":5}`, "at '/$schema'"},
		{"a reference to nothing", `{"$ref":"#/$defs/a"}`, "not found"},
		{"a reference to a file", `{"$ref":"file:///etc/hostname"}`, "nothing is loaded"},
		{"a reference to a file nearby", `{"$ref":"other.json"}`, "nothing is loaded"},
		{"a reference to an address", `{"$ref":"https://example.invalid/a"}`, "nothing is loaded"},
		{"a circle", `{"$ref":"#"}`, "without end"},
		{"a circle by detours", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}`, "without end"},
		{"a dynamic circle", `{"$dynamicAnchor":"a","anyOf":[{"$dynamicRef":"#a"}]}`, "without end"},
		{"a long chain", chain, "inside each other"},
		{"many references to odd places", far(maxFarRefs + 1), "places other than definitions"},
		{"many subschemas", `{"allOf":[` + strings.Repeat(`{},`, maxSubschemas) + `{}]}`, "objects and booleans"},
		{"many booleans", `{"allOf":[` + strings.Repeat(`true,`, maxSubschemas) + `{}]}`, "objects and booleans"},
		{"one level too deep", strings.Repeat(`{"x":`, MaxSchemaDepth) + `{}` + strings.Repeat(`}`, MaxSchemaDepth), "deeper than 64"},
		{"a byte too many", `{}` + strings.Repeat(" ", MaxSchemaBytes-1), "65537 bytes"},
		{"a number of a million digits", `{"properties":{"a":{"minimum":1e1000000}}}`, "at '/properties/a/minimum': the exponent"},
		{"a number of many digits", `{"maximum":` + strings.Repeat("1", MaxNumberBytes+1) + `}`, "at '/maximum'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile("paint", jsontext.Value(tt.schema))
			var refused *fault.Error
			if !errors.As(err, &refused) || refused.Code != fault.ToolsManifestInvalid || refused.Details["toolName"] != "paint" {
				t.Fatalf("got %v", err)
			}
			why, _ := refused.Details["error"].(string)
			if !strings.Contains(why, tt.says) {
				t.Errorf("error %q does not speak of %q", why, tt.says)
			}
			if len(why) > 4<<10 || strings.Contains(why, schemaURL) {
				t.Errorf("error is long, or shows our own address: %q", why)
			}
		})
	}
}

func TestSchemaAsksNoServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for", r.URL)
		fmt.Fprint(w, `{}`)
	}))
	defer server.Close()
	for _, schema := range []string{
		`{"$ref":"URL"}`,
		`{"$schema":"URL"}`,
		`{"$id":"URL","$ref":"other"}`,
		`{"$defs":{"a":{"$id":"URL/a","$schema":"URL/b"}}}`,
		`{"$dynamicRef":"URL#a"}`,
		`{` + draft19 + `"$recursiveRef":"URL"}`,
	} {
		schema = strings.ReplaceAll(schema, "URL", server.URL)
		if _, err := Compile("paint", jsontext.Value(schema)); err == nil {
			t.Errorf("%s was accepted", schema)
		}
	}
}

// What a schema means beyond what the official suite says.
func TestMeaningOfSchemas(t *testing.T) {
	inA := func(schema string) string { return `{"properties":{"a":` + schema + `}}` }
	tests := []struct {
		name, schema, args string
		valid              bool
	}{
		{"format is an annotation", inA(`{"format":"email"}`), `{"a":"nobody"}`, true},
		{"format is an annotation in draft 07", `{` + draft07 + `"properties":{"a":{"format":"date-time"}}}`, `{"a":"later"}`, true},
		{"format is an annotation in draft 04", `{` + draft04 + `"properties":{"a":{"format":"regex"}}}`, `{"a":"("}`, true},
		{"content is an annotation", inA(`{"contentEncoding":"base64","contentMediaType":"application/json"}`), `{"a":"{"}`, true},
		{"defaults are not filled in", `{"properties":{"a":{"default":1}},"required":["a"]}`, `{}`, false},
		{"a pattern looks anywhere", inA(`{"pattern":"b"}`), `{"a":"abc"}`, true},
		{"a pattern looks ahead", inA(`{"pattern":"^(?!x)a(?=b)"}`), `{"a":"ab"}`, true},
		{"a pattern looks behind", inA(`{"pattern":"(?<=a)b$"}`), `{"a":"cb"}`, false},
		{"a pattern refers back", inA(`{"pattern":"^(a|b)\\1$"}`), `{"a":"ab"}`, false},
		{"the end of a text is its end", inA(`{"pattern":"^a$"}`), `{"a":"a\n"}`, false},
		{"digits are those of ASCII", inA(`{"pattern":"^\\d$"}`), `{"a":"٣"}`, false},
		{"letters of every script", inA(`{"pattern":"^\\p{Letter}\\p{gc=Lu}\\P{L}$"}`), `{"a":"éЖ1"}`, true},
		{"a script", inA(`{"pattern":"^\\p{Script=Greek}+$"}`), `{"a":"λόγος"}`, true},
		{"an escaped backslash before p", inA(`{"pattern":"^\\\\p\\{Letter\\}$"}`), `{"a":"\\p{Letter}"}`, true},
		{"a code point is one character", inA(`{"pattern":"^.$","maxLength":1}`), `{"a":"😀"}`, true},
		{"an integer with a point", inA(`{"type":"integer"}`), `{"a":1.0}`, true},
		{"an integer with an exponent", inA(`{"type":"integer"}`), `{"a":1.5e1}`, true},
		{"a great integer is exact", inA(`{"maximum":9007199254740992}`), `{"a":9007199254740993}`, false},
		{"const by value", inA(`{"const":1}`), `{"a":1.0}`, true},
		{"const is exact", inA(`{"const":9007199254740993}`), `{"a":9007199254740992}`, false},
		{"enum by value, in depth", inA(`{"enum":[{"x":[1]}]}`), `{"a":{"x":[10e-1]}}`, true},
		{"unique by value", inA(`{"uniqueItems":true}`), `{"a":[1,2,1.0]}`, false},
		{"unique by value, in depth", inA(`{"uniqueItems":true}`), `{"a":[{"x":1,"y":2},{"y":2.0,"x":1}]}`, false},
		{"unique distinguishes types", inA(`{"uniqueItems":true}`), `{"a":[1,"1",true,[1],{"1":1},0,false,null]}`, true},
		{"unique in long lists", inA(`{"uniqueItems":true}`), `{"a":[` + numbers(30) + `,2.90e1]}`, false},
		{"a great number is a number", inA(`{"minimum":1e399}`), `{"a":1e400}`, true},
		{"multipleOf is exact", inA(`{"multipleOf":0.1}`), `{"a":0.3}`, true},
		{"names", `{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, false},
		{"names through a reference", `{"propertyNames":{"$ref":"#/$defs/n"},"$defs":{"n":{"enum":["a"]}}}`, `{"a":1}`, true},
		{"names under not", `{"not":{"propertyNames":{"maxLength":2}}}`, `{"abc":1}`, true},
		{"unique under not", inA(`{"not":{"uniqueItems":true}}`), `{"a":[1,1]}`, true},
		{"siblings of a reference count", `{"$ref":"#/$defs/n","required":["a"],"$defs":{"n":{}}}`, `{}`, false},
		{"siblings of a reference are ignored in draft 07", `{` + draft07 + `"$ref":"#/definitions/n","required":["a"],"definitions":{"n":{}}}`, `{}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Tool{Name: "paint"}.CheckArgs(mustCompile(t, tt.schema), jsontext.Value(tt.args), time.Now)
			if (err == nil) != tt.valid {
				t.Errorf("got %v", err)
			}
		})
	}
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, i)
	}
	return b.String()
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`{}`, `true`, `{"$ref":"#"}`, `{"type":["object"],"properties":{"a":{"pattern":"(a)\\1"}}}`, `{` + draft04 + `"id":"x","items":[{}]}`,
		`{` + draft19 + `"$recursiveRef":"#"}`, `{"$dynamicRef":"#a","$defs":{"a":{"$dynamicAnchor":"a"}}}`, `{"$id":"a","$defs":{"b":{"$id":"b","$ref":"a"}}}`, `{"minimum":1e400}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		s, err := Compile("paint", schema)
		if err != nil {
			if !fault.Is(err, fault.ToolsManifestInvalid) {
				t.Fatal(err)
			}
			return
		}
		_, err = Tool{Name: "paint"}.CheckArgs(s, jsontext.Value(`{"a":[1,"x",{"b":null}]}`), time.Now)
		if err != nil && !fault.Is(err, fault.ToolArgsInvalid) {
			t.Fatal(err)
		}
	})
}

func TestASchemaSaysInOneWordThatItIsOfAnObject(t *testing.T) {
	for schema, want := range map[string]string{
		`true`:                       `{"type":"object"}`,
		`{}`:                         `{"type":"object"}`,
		`{"type":"object"}`:          `{"type":"object"}`,
		`{"type":["object"]}`:        `{"type":"object"}`,
		`{"type":["null","object"]}`: `{"type":"object"}`,
		`{"minProperties":1}`:        `{"minProperties":1,"type":"object"}`,
		`{"allOf":[{"$ref":"#/x"}]}`: `{"allOf":[{"$ref":"#/x"}],"type":"object"}`,
		`{"x":1, "type":"object"}`:   `{"x":1, "type":"object"}`,
	} {
		if got := string(ObjectSchema(jsontext.Value(schema))); got != want {
			t.Errorf("%s became %s, want %s", schema, got, want)
		}
	}
}
