package tool

import (
	"encoding/json" // for Number
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// The budget of one check of arguments. A schema of two kilobytes can ask for
// 2^30 evaluations, and one pattern for years.
const (
	MaxEvaluations = 100_000                // of a subschema on a value
	MaxPatternTime = 200 * time.Millisecond // in all patterns together
)

// budget is what is left for one check.
type budget struct {
	value   any // the arguments
	depth   int // how deep they are nested
	steps   int // evaluations left
	pattern time.Duration
	now     func() time.Time
}

func newBudget(v any, depth int, now func() time.Time) *budget {
	return &budget{value: v, depth: depth, steps: MaxEvaluations, pattern: MaxPatternTime, now: now}
}

// exhausted is the error, and the panic, of a budget that is used up.
type exhausted struct{ text string }

func (e *exhausted) Error() string { return e.text }

// charge takes evaluations of a value from the budget. It panics with
// *exhausted when they are not left.
func (b *budget) charge(steps int, v any) {
	b.steps -= steps
	if b.steps < 0 {
		panic(&exhausted{fmt.Sprintf("at '%s': the check takes more than %d steps; a simpler schema or smaller arguments are needed", b.place(v), MaxEvaluations)})
	}
}

// chargePattern takes the time of a pattern on a text from the budget.
func (b *budget) chargePattern(spent time.Duration, text, pattern string) {
	b.pattern -= max(0, spent)
	if b.pattern <= 0 {
		panic(&exhausted{fmt.Sprintf("at '%s': the patterns take more than %d ms, the last of them %s", b.place(text), MaxPatternTime.Milliseconds(), shorten(fmt.Sprintf("%q", pattern), maxPathBytes))})
	}
}

// place returns the JSON pointer of a value inside the arguments. The hooks of
// the validator see the value and not the way to it, so it is found again by
// its identity in memory. A value without one counts as the root.
func (b *budget) place(v any) string {
	identity := identityOf(v)
	if identity == nil {
		return ""
	}
	path, _ := find(b.value, identity)
	return shorten(path, maxPathBytes)
}

func find(in any, identity unsafe.Pointer) (string, bool) {
	if identityOf(in) == identity {
		return "", true
	}
	switch in := in.(type) {
	case []any:
		for i, item := range in {
			if path, ok := find(item, identity); ok {
				return fmt.Sprintf("/%d%s", i, path), true
			}
		}
	case map[string]any:
		for name, value := range in {
			if identityOf(name) == identity {
				return pointerToken(name), true
			}
			if path, ok := find(value, identity); ok {
				return pointerToken(name) + path, true
			}
		}
	}
	return "", false
}

// identityOf returns the address of a value's content, or nil.
func identityOf(v any) unsafe.Pointer {
	switch v := v.(type) {
	case string:
		return unsafe.Pointer(unsafe.StringData(v))
	case json.Number:
		return unsafe.Pointer(unsafe.StringData(string(v)))
	case []any:
		if len(v) == 0 {
			return nil // all empty ones share an address
		}
		return unsafe.Pointer(unsafe.SliceData(v))
	case map[string]any:
		return reflect.ValueOf(v).UnsafePointer()
	}
	return nil
}

// pointerToken returns a member's name as a step of a JSON pointer (RFC 6901).
func pointerToken(name string) string { return "/" + pointerEscapes.Replace(name) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
