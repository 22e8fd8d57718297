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
	maxErrorBytes    = 1 << 10
	maxPathBytes     = 200
	maxViolationText = 300
	maxViolations    = 4 // places named in one text
)

// describe returns the violated rules, each with the JSON pointer of the
// failing place: "at '/a/0': got string, want number; at …". The order is that
// of the places, so that equal checks have equal texts.
func describe(err *jsonschema.ValidationError) string {
	leaves := leavesOf(err, nil)
	slices.SortStableFunc(leaves, func(a, b leaf) int {
		return cmp.Or(cmp.Compare(a.path, b.path), slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()), cmp.Compare(a.SchemaURL, b.SchemaURL))
	})
	var texts []string
	for _, l := range leaves[:min(len(leaves), maxViolations)] {
		if text := l.text(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if more := len(leaves) - maxViolations; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return shorten(strings.Join(texts, "; "), maxViolations*maxViolationText)
}

// leaf is a violation that no other one explains, with its place.
type leaf struct {
	*jsonschema.ValidationError
	path string
}

func leavesOf(err *jsonschema.ValidationError, leaves []leaf) []leaf {
	if err.ErrorKind == nil { // found where only yes or no was asked
		return leaves
	}
	if len(err.Causes) == 0 || isChoice(err.ErrorKind) {
		var path strings.Builder
		for _, step := range err.InstanceLocation {
			path.WriteString(pointerToken(step))
		}
		leaves = append(leaves, leaf{err, path.String()})
	}
	for _, cause := range err.Causes {
		leaves = leavesOf(cause, leaves)
	}
	return leaves
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

// text returns one line of the library's wording.
func (l leaf) text() string {
	alone := jsonschema.ValidationError{SchemaURL: l.SchemaURL, ErrorKind: l.ErrorKind}
	why := strings.TrimPrefix(alone.Error(), "at '': ")
	return fmt.Sprintf("at '%s': %s", shorten(l.path, maxPathBytes), shorten(why, maxViolationText-maxPathBytes/2))
}

// shorten cuts a text to at most limit bytes, between code points.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(s[:limit-len(ellipsis)], "") + ellipsis
}
