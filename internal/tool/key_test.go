package tool

import (
	"encoding/json" // for Number
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestKeysOfEqualArguments(t *testing.T) {
	tests := []struct {
		a, b  string
		equal bool
	}{
		{`{}`, ` { } `, true},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{`{"a":1}`, `{"a":1.0}`, true},
		{`{"a":1}`, `{"a":1e0}`, true},
		{`{"a":10}`, `{"a":1e1}`, true},
		{`{"a":100e-2}`, `{"a":0.01E+2}`, true},
		{`{"a":0}`, `{"a":-0.00e7}`, true},
		{`{"a":1e400}`, `{"a":10e399}`, true},
		{`{"a":1e400}`, `{"a":1e399}`, false},
		{`{"a":1e400}`, `{"a":1.0000000000000000000000000000000000001e400}`, false},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":1}`, `{"a":-1}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":1}`, `{"a":true}`, false},
		{`{"a":null}`, `{}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{`{"a":[1,[2]]}`, `{"a":[1,2]}`, false},
		{`{"a":["b","c"]}`, `{"a":["bc"]}`, false},
		{`{"a":{"b":1},"c":2}`, `{"a":{"b":1,"c":2}}`, false},
		{`{"\u0061":"\u0062"}`, `{"a":"b"}`, true},
		{`{"a":1,"timeoutMs":5}`, `{"a":1}`, true},
	}
	s := mustCompile(t, `{}`)
	key := func(toolName, args string) Key {
		call, err := Tool{Name: toolName}.CheckArgs(s, jsontext.Value(args), time.Now)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		return call.Key
	}
	for _, tt := range tests {
		if got := key("paint", tt.a) == key("paint", tt.b); got != tt.equal {
			t.Errorf("%s and %s: equal = %t", tt.a, tt.b, got)
		}
		if key("paint", tt.a) == key("pain", tt.a) {
			t.Errorf("%s: two tools share a key", tt.a)
		}
	}
}

// equalSlowly is JSON equality as it is defined, with numbers as fractions.
func equalSlowly(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := new(big.Rat).SetString(string(a))
		y, _ := new(big.Rat).SetString(string(b))
		return x.Cmp(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalSlowly(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if other, ok := b[name]; !ok || !equalSlowly(a[name], other) {
				return false
			}
		}
		return true
	}
	return a == b
}

// number draws one of few values in one of many spellings, so that equal ones
// are common.
func number(t *rapid.T) string {
	n := rapid.IntRange(-12, 12).Draw(t, "n")
	shift := rapid.IntRange(-30, 30).Draw(t, "shift")
	literal := new(big.Rat).SetFrac64(int64(n), 1).FloatString(rapid.IntRange(0, 4).Draw(t, "places"))
	switch rapid.IntRange(0, 2).Draw(t, "spelling") {
	case 0:
		return literal
	case 1:
		return fmt.Sprintf("%se%+d", literal, shift)
	}
	digits := fmt.Sprint(n)
	if shift >= 0 && n != 0 { // n × 10^shift × 10^-shift
		return digits + strings.Repeat("0", shift) + fmt.Sprintf("E-%d", shift)
	}
	return digits
}

func value(t *rapid.T, depth int) string {
	kinds := 5
	if depth == 0 {
		kinds = 3
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false", `""`, `"a"`, `"\u0061"`, `"b"`, `"1"`}).Draw(t, "word")
	case 1, 2:
		return number(t)
	case 3:
		items := make([]string, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range items {
			items[i] = value(t, depth-1)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	names := rapid.Permutation([]string{`"a"`, `"b"`, `"1"`, `"ab"`}).Draw(t, "names")[:rapid.IntRange(0, 3).Draw(t, "members")]
	members := make([]string, len(names))
	for i, name := range names {
		members[i] = name + ":" + value(t, depth-1)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestKeyIsEqualIfAndOnlyIfArgumentsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := value(t, 2), value(t, 2)
		checkKeys(t, a, b)
	})
}

func FuzzKey(f *testing.F) {
	f.Add(`{"a":1}`, `{"a":1.0}`)
	f.Add(`[1e400,-0]`, `[10e399,0]`)
	f.Add(`{"a":[{"b":"c"}],"d":null}`, `{"d":null,"a":[{"b":"\u0063"}]}`)
	f.Fuzz(func(t *testing.T, a, b string) { checkKeys(t, a, b) })
}

func checkKeys(t interface {
	Helper()
	Fatalf(string, ...any)
}, a, b string) {
	t.Helper()
	x, _, err := decode(jsontext.Value(a), MaxArgsDepth)
	if err != nil {
		return
	}
	y, _, err := decode(jsontext.Value(b), MaxArgsDepth)
	if err != nil {
		return
	}
	if got, want := keyOf("t", x) == keyOf("t", y), equalSlowly(x, y); got != want {
		t.Fatalf("%s and %s: the keys are equal = %t, want %t", a, b, got, want)
	}
}
