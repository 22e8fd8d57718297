package tool

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// FuzzManifest checks manifests of two tools: one that is accepted keeps to every
// rule and is accepted as it became, and a refusal names the tool and the rule.
func FuzzManifest(f *testing.F) {
	f.Add("guidance", "add", "Adds.", []byte(`{"type":"object"}`), int64(0), "paint")
	f.Add("", "add", " ", []byte(`{}`), int64(-1), "add")
	f.Add("", "a.b-c_1", "d", []byte(`{"$ref":"#/$defs/x","$defs":{"x":{"type":"object"}}}`), int64(1<<62), "B")
	f.Add("", "1x", "\xff", []byte(`[]`), int64(5), strings.Repeat("n", MaxNameBytes+1))
	f.Fuzz(func(t *testing.T, guidance, name, description string, schema []byte, timeout int64, other string) {
		given := Skills{Guidance: guidance, Tools: []Tool{
			{Name: name, Description: description, ArgsSchema: schema, Timeout: time.Duration(timeout)},
			{Name: other, Description: "d", ArgsSchema: jsontext.Value(`{"type":"object"}`)},
		}}
		checked, err := given.Check()
		if err != nil {
			e := fault.From(err)
			if e.Code != fault.ToolsManifestInvalid || e.Details["error"] == "" || len(e.Details["toolName"].(string)) > MaxNameBytes {
				t.Fatalf("refused with %+v", e)
			}
			return
		}
		if checked.Tools[0].Name == checked.Tools[1].Name {
			t.Fatalf("two tools are called %q", name)
		}
		for _, tool := range checked.Tools {
			if tool.Timeout <= 0 || tool.Timeout > MaxTimeout || strings.TrimSpace(tool.Description) == "" {
				t.Fatalf("accepted %+v", tool)
			}
		}
		if _, err := checked.Check(); err != nil {
			t.Fatalf("refused the second time: %v", err)
		}
	})
}

// FuzzModelNames maps names there and back.
func FuzzModelNames(f *testing.F) {
	f.Add("ui.open", "ui_open", "ui_open_e1c9b7a2")
	f.Add(strings.Repeat("a", 60), strings.Repeat("a", 61), "a")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var tools []Tool
		for _, name := range []string{a, b, c} {
			if namePattern.MatchString(name) && !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name }) {
				tools = append(tools, Tool{Name: name})
			}
		}
		names := ModelNames(tools)
		for _, tool := range tools {
			model := names.Model[tool.Name]
			if !modelNamePattern.MatchString(model) || names.Tool[model] != tool.Name {
				t.Fatalf("%q is called %q, which is %q", tool.Name, model, names.Tool[model])
			}
		}
		if len(names.Model) != len(tools) || len(names.Tool) != len(tools) {
			t.Fatalf("%d tools have %d and %d names", len(tools), len(names.Model), len(names.Tool))
		}
		slices.Reverse(tools)
		for name, model := range ModelNames(tools).Model {
			if names.Model[name] != model {
				t.Fatalf("%q is called %q or %q, by the order of the tools", name, names.Model[name], model)
			}
		}
	})
}

// FuzzPattern compares with Go's engine, for patterns that mean the same to both.
func FuzzPattern(f *testing.F) {
	f.Add(`^[a-z]+x?$`, "abcx")
	f.Add(`a(b|c)*d`, "abcbd")
	f.Add(`[^-0-9]`, "7")
	common := regexp.MustCompile(`^[\^]?([a-z0-9](?:[*+?])?|\[\^?[a-z]-?[a-z]?\]|\([a-z|]*\))*[$]?$`)
	f.Fuzz(func(t *testing.T, text, subject string) {
		if len(text) > 40 || len(subject) > 40 {
			return
		}
		s, err := Compile("paint", jsontext.Value(`{"properties":{"a":{"pattern":`+quoted(text)+`}}}`))
		if err != nil {
			return
		}
		began := time.Now()
		_, err = Tool{Name: "paint"}.CheckArgs(s, jsontext.Value(`{"a":`+quoted(subject)+`}`), time.Now)
		if took := time.Since(began); took > 50*MaxPatternTime { // the machine may be busy
			t.Fatalf("%q took %v on %q", text, took, subject)
		}
		if !common.MatchString(text) || !isASCII(subject) {
			return
		}
		re, reErr := regexp.Compile(text)
		if reErr != nil {
			return
		}
		if want := re.MatchString(subject); (err == nil) != want {
			t.Fatalf("%q on %q: %v, and Go's engine says %t", text, subject, err, want)
		}
	})
}

func quoted(text string) string {
	b, _ := jsontext.AppendQuote(nil, text) // what is no UTF-8 is repaired
	return string(b)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 || r < ' ' })
}
