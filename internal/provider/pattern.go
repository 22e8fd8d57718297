package provider

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

const (
	// maxPatternBytes is the length of the longest pattern that is looked at; a path is
	// no longer.
	maxPatternBytes = 4096
	// maxBraces and maxAlternatives bound the work for one pattern; one with more is
	// refused.
	maxBraces       = 20
	maxAlternatives = 100
)

// CollectPattern adds where the patterns in a search's input lead, each a path whose
// wildcards are names that nobody has. One that may lead up or, by an alternative,
// elsewhere makes the question one that is refused.
func (q *Question) CollectPattern(input jsontext.Value) {
	collectPattern(q, input, nil, inputDepth)
	q.bound()
}

// collectPattern is CollectPattern down to a depth, below which Collect refuses.
// folders are those that an outer object names.
func collectPattern(q *Question, input jsontext.Value, folders []string, depth int) {
	if depth == 0 {
		return
	}
	for _, inner := range elementsOf(input) {
		collectPattern(q, inner, folders, depth-1)
	}
	var members map[string]jsontext.Value
	if input.Kind() != '{' || jsonrpc.Unmarshal(input, &members) != nil {
		return // Collect refuses what cannot be understood
	}
	var patterns, own []string
	for name, value := range members {
		switch key := plainKey.Replace(strings.ToLower(name)); {
		case isPatternKey(key):
			texts := stringsOf(value, depth)
			if len(texts) == 0 {
				texts = []string{""} // of another kind: refused
			}
			patterns = append(patterns, texts...)
		case isPathKey(key):
			own = append(own, stringsOf(value, depth)...)
		}
	}
	if len(own) > 0 {
		folders = own
	}
	for _, pattern := range patterns {
		if len(q.Paths) > maxPaths {
			return
		}
		q.Paths = append(q.Paths, leadsTo(pattern, folders)...)
	}
	for _, value := range members {
		collectPattern(q, value, folders, depth-1)
	}
}

func isPatternKey(key string) bool {
	switch key {
	case "pattern", "patterns", "glob", "globs", "globpattern":
		return true
	}
	return false
}

// leadsTo returns the paths that a pattern may mean in some folders.
func leadsTo(pattern string, folders []string) (paths []string) {
	all, ok := readings(trim(pattern))
	if !ok {
		return []string{""}
	}
	for _, one := range all {
		switch {
		case leadsAway.MatchString(one):
			return []string{""}
		case len(folders) == 0, standsAlone(one), strings.HasPrefix(one, "~"):
			paths = append(paths, one)
			continue
		}
		for _, folder := range folders {
			paths = append(paths, folder+string(filepath.Separator)+one) // not Join: it would resolve ".." before links
		}
	}
	return paths
}

// leadsAway matches a pattern with a step up, or with an alternative that may be a
// path of its own, as in (/etc|src)/*.
var leadsAway = regexp.MustCompile(`(?:^|[/\\,(|])\.\.(?:[/\\,)|]|$)|[,(|][/\\~]`)

// readings returns all that a pattern can mean, but for its wildcards, which find no
// "..": each choice of its alternatives in braces, as it is and with what is escaped
// or stands alone in brackets taken for itself. It is not ok when it is not clear how
// its braces belong together, or when there are too many.
func readings(pattern string) (all []string, ok bool) {
	if len(pattern) > maxPatternBytes || strings.Count(pattern, "{") > maxBraces ||
		strings.Contains(pattern, `\`) && strings.ContainsAny(pattern, "{}") {
		return nil, false
	}
	open := []string{pattern}
	for len(open) > 0 {
		if len(open)+len(all) > maxAlternatives {
			return nil, false
		}
		one := open[len(open)-1]
		open = open[:len(open)-1]
		inner := innerBraces.FindStringSubmatchIndex(one)
		if inner == nil {
			all = append(all, one)
			continue
		}
		for choice := range strings.SplitSeq(one[inner[2]:inner[3]], ",") {
			open = append(open, one[:inner[0]]+choice+one[inner[1]:])
		}
	}
	for _, one := range all {
		if strings.ContainsAny(one, "{}") || one == "" {
			return nil, false
		}
		if literal := escaped.ReplaceAllString(one, "$1$2"); literal != one {
			all = append(all, literal)
		}
	}
	return all, true
}

var (
	innerBraces = regexp.MustCompile(`\{([^{}]*)\}`)
	escaped     = regexp.MustCompile(`\\(.)|\[([^]])\]`)
)
