package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Limits of what an error text repeats of schema and arguments.
const (
	maxErrorBytes  = 1 << 10
	maxPathBytes   = 200
	maxReasonBytes = 200
	maxViolations  = 4 // places named in one text
)

// describe returns the violated rules, each with the JSON pointer of the
// failing place: "at '/a/0': got string, want number; at …". The order is that
// of the places, so that equal checks have equal texts.
func describe(err *jsonschema.ValidationError) string {
	var found violations
	found.collect(err)
	var texts []string
	for _, v := range found.first {
		if text := textOf(v); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if more := found.count - len(found.first); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// violations are the violations that no other one explains. There may be a
// hundred thousand, so that only those are kept that will be told.
type violations struct {
	first []*jsonschema.ValidationError // at most maxViolations, in order
	count int
}

func (vs *violations) collect(err *jsonschema.ValidationError) {
	if err.ErrorKind == nil { // found where only yes or no was asked
		return
	}
	if len(err.Causes) == 0 || isChoice(err.ErrorKind) {
		vs.add(err)
	}
	for _, cause := range err.Causes {
		vs.collect(cause)
	}
}

func (vs *violations) add(err *jsonschema.ValidationError) {
	vs.count++
	at, _ := slices.BinarySearchFunc(vs.first, err, compareViolations)
	if at == maxViolations {
		return
	}
	vs.first = slices.Insert(vs.first, at, err)
	vs.first = vs.first[:min(len(vs.first), maxViolations)]
}

func compareViolations(a, b *jsonschema.ValidationError) int {
	return cmp.Or(
		slices.Compare(a.InstanceLocation, b.InstanceLocation),
		slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()),
		cmp.Compare(a.SchemaURL, b.SchemaURL),
	)
}

// isChoice reports whether a violation must be told besides its causes, of
// which it is enough to mend some.
func isChoice(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.PropertyNames, *kind.Contains, *kind.MinContains:
		return true
	}
	return false
}

// textOf returns one line in the library's wording.
func textOf(v *jsonschema.ValidationError) string {
	var path strings.Builder
	for _, step := range v.InstanceLocation {
		path.WriteString(pointerToken(step))
	}
	alone := jsonschema.ValidationError{SchemaURL: v.SchemaURL, ErrorKind: v.ErrorKind}
	why := strings.TrimPrefix(alone.Error(), "at '': ")
	return fmt.Sprintf("at '%s': %s", shorten(path.String(), maxPathBytes), shorten(why, maxReasonBytes))
}

// shorten cuts a text to at most limit bytes, between code points.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(s[:limit-len(ellipsis)], "") + ellipsis
}
