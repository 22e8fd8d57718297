package tool

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A schema and arguments as pages have them.
const (
	benchSchema = `{"type":"object","required":["shape","at"],"additionalProperties":false,"properties":{
		"shape":{"enum":["circle","box","line"]},
		"at":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["x","y"]},
		"colour":{"type":"string","pattern":"^#[0-9a-f]{6}$"},
		"label":{"type":"string","maxLength":200},
		"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`
	benchArgs = `{"shape":"box","at":{"x":12.5,"y":-3},"colour":"#c0ffee","label":"the second box","tags":["a","b","c"]}`
)

// BenchmarkCheck is one call's check, beside the mere reading of its arguments.
func BenchmarkCheck(b *testing.B) {
	set := NewSet(Skills{Tools: []Tool{{Name: "paint", ArgsSchema: jsontext.Value(benchSchema)}}}, time.Now)
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := set.Check("paint", jsontext.Value(benchArgs)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := json.Unmarshal([]byte(benchArgs), &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCompile is what each tool adds to the creation of a thread.
func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile("paint", jsontext.Value(benchSchema)); err != nil {
			b.Fatal(err)
		}
	}
}
