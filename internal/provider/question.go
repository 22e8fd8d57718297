package provider

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// inputDepth is how deep a tool's input is searched for paths and commands, objects
// and arrays both counted.
const inputDepth = 16

// maxPaths bounds the work for one question; one that names more is refused.
const maxPaths = 1000

// Collect adds the paths and commands in a tool's input, whose shape every agent
// chooses for itself. What cannot be understood makes the question one that is
// refused.
func (q *Question) Collect(input jsontext.Value) {
	collect(q, input, inputDepth)
	q.bound()
}

// bound makes a question that names too much one that is refused, whatever is still
// added to it.
func (q *Question) bound() {
	if len(q.Paths) > maxPaths {
		q.Paths = []string{""}
	}
}

// collect is Collect down to a depth.
func collect(q *Question, input jsontext.Value, depth int) {
	if kind := input.Kind(); kind != '{' && kind != '[' {
		return
	}
	if depth == 0 {
		q.Paths = append(q.Paths, "") // too deep to be sure: refused
		return
	}
	if input.Kind() == '[' {
		for _, inner := range elementsOf(input) {
			collect(q, inner, depth-1)
		}
		return
	}
	var members map[string]jsontext.Value
	if err := jsonrpc.Unmarshal(input, &members); err != nil {
		q.Paths = append(q.Paths, "") // not to be understood: refused
		return
	}
	for name, value := range members {
		switch key := plainKey.Replace(strings.ToLower(name)); {
		case isCommandKey(key):
			collectCommand(q, value)
		case isPathKey(key):
			q.Paths = append(q.Paths, stringsOf(value, depth)...)
		}
		collect(q, value, depth-1)
	}
}

// plainKey makes file_path and filePath the same.
var plainKey = strings.NewReplacer("_", "", "-", "")

func isCommandKey(key string) bool {
	switch key {
	case "command", "commands", "cmd", "commandline", "script":
		return true
	}
	return false
}

func isPathKey(key string) bool {
	switch key {
	case "path", "paths", "file", "files", "filename", "filepath", "filepaths", "absolutepath",
		"dir", "directory", "directories", "targetdirectory", "folder", "cwd", "workdir", "parentdir", "patterns",
		"notebookpath", "source", "sourcepath", "destination", "destinationpath", "target", "targetpath", "targetfile",
		"from", "to", "oldpath", "newpath", "relativeworkspacepath", "uri":
		return true
	}
	return false
}

func collectCommand(q *Question, value jsontext.Value) {
	switch value.Kind() {
	case '"':
		q.Commands = append(q.Commands, jsonrpc.Text(value))
	case '[':
		q.Argvs = append(q.Argvs, stringsOf(value, inputDepth))
	default:
		q.Argvs = append(q.Argvs, nil) // no command that we know: refused
	}
}

// stringsOf returns a string, or the strings of an array, down to a depth.
func stringsOf(value jsontext.Value, depth int) []string {
	switch {
	case value.Kind() == '"':
		return []string{jsonrpc.Text(value)}
	case value.Kind() == '[' && depth == 0:
		return []string{""} // too deep to be sure: refused
	}
	var texts []string
	for _, v := range elementsOf(value) {
		texts = append(texts, stringsOf(v, depth-1)...)
	}
	return texts
}

// elementsOf returns the elements of an array.
func elementsOf(value jsontext.Value) (all []jsontext.Value) {
	if value.Kind() != '[' || jsonrpc.Unmarshal(value, &all) != nil {
		return nil
	}
	return all
}
