package provider

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// CollectPattern adds where the patterns in a search's input lead, each a path whose
// wildcards are names that nobody has. One that may lead up or, by an alternative,
// elsewhere makes the question one that is refused.
func (q *Question) CollectPattern(input jsontext.Value) {
	var members map[string]jsontext.Value
	if jsonrpc.Unmarshal(input, &members) != nil {
		return // Collect refuses what is no object
	}
	var patterns, folders []string
	for name, value := range members {
		switch key := plainKey.Replace(strings.ToLower(name)); {
		case isPatternKey(key):
			patterns = append(patterns, jsonrpc.Text(value)) // of another kind: "", which is refused
		case isPathKey(key):
			folders = append(folders, stringsOf(value)...)
		}
	}
	for _, pattern := range patterns {
		q.Paths = append(q.Paths, leadsTo(pattern, folders)...)
	}
}

func isPatternKey(key string) bool { return key == "pattern" || key == "glob" || key == "globpattern" }

// leadsTo returns the paths that a pattern may mean in some folders.
func leadsTo(pattern string, folders []string) []string {
	switch {
	case leadsAway.MatchString(pattern):
		return []string{""}
	case pattern == "", len(folders) == 0, filepath.IsAbs(pattern), strings.HasPrefix(pattern, "~"):
		return []string{pattern}
	}
	var paths []string
	for _, folder := range folders {
		paths = append(paths, folder+string(filepath.Separator)+pattern) // not Join: it would resolve ".." before links
	}
	return paths
}

// leadsAway matches a pattern with a step up, or with an alternative that may be a
// path of its own, as in {/etc,src}/*.
var leadsAway = regexp.MustCompile(`(?:^|[/\\{,(|])\.\.(?:[/\\},)|]|$)|[{,(|][/\\~]`)
