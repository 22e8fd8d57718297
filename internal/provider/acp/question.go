package acp

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// inputDepth is how deep a tool's input is searched for paths and commands.
const inputDepth = 8

// maxPaths bounds the work for one question; one that names more is refused.
const maxPaths = 1000

// question reads what a tool call wants to do.
func (c toolCall) question() provider.Question {
	q := provider.Question{
		Reads: c.Kind == "read" || c.Kind == "search",
		Shell: c.Kind == "execute",
	}
	for _, l := range c.Locations {
		q.Paths = append(q.Paths, l.Path)
	}
	for _, block := range c.Content {
		if block.Path != "" {
			q.Paths = append(q.Paths, block.Path)
		}
	}
	collect(&q, c.RawInput, inputDepth)
	if len(q.Paths) > maxPaths {
		q.Paths = nil
	}
	return q
}

// collect finds the paths and commands in a tool's input, whose shape every agent
// chooses for itself.
func collect(q *provider.Question, input jsontext.Value, depth int) {
	if input.Kind() != '{' {
		return
	}
	if depth == 0 {
		q.Paths = append(q.Paths, "") // too deep to be sure: refused
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
			q.Paths = append(q.Paths, stringsOf(value)...)
		}
		for _, inner := range objectsOf(value) {
			collect(q, inner, depth-1)
		}
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
		"dir", "directory", "directories", "folder", "cwd", "workdir", "parentdir", "patterns",
		"source", "sourcepath", "destination", "destinationpath", "target", "targetpath", "targetfile",
		"from", "to", "oldpath", "newpath", "relativeworkspacepath", "uri":
		return true
	}
	return false
}

func collectCommand(q *provider.Question, value jsontext.Value) {
	switch value.Kind() {
	case '"':
		q.Commands = append(q.Commands, jsonrpc.Text(value))
	case '[':
		q.Argvs = append(q.Argvs, stringsOf(value))
	default:
		q.Argvs = append(q.Argvs, nil) // no command that we know: refused
	}
}

// stringsOf returns a string, or the strings of an array.
func stringsOf(value jsontext.Value) []string {
	switch value.Kind() {
	case '"':
		return []string{jsonrpc.Text(value)}
	case '[':
		var all []jsontext.Value
		if jsonrpc.Unmarshal(value, &all) != nil {
			return nil
		}
		var texts []string
		for _, v := range all {
			if v.Kind() == '"' {
				texts = append(texts, jsonrpc.Text(v))
			}
		}
		return texts
	}
	return nil
}

// objectsOf returns an object, or the objects of an array.
func objectsOf(value jsontext.Value) []jsontext.Value {
	switch value.Kind() {
	case '{':
		return []jsontext.Value{value}
	case '[':
		var all []jsontext.Value
		if jsonrpc.Unmarshal(value, &all) != nil {
			return nil
		}
		return all
	}
	return nil
}

// decision picks the answer among the options that the agent offers, by kind: ids
// differ between agents. It never picks one that outlasts this question, unless
// that is the only way to say no, or the user has allowed everything.
func decision(options []permissionOption, allowed, everything bool) outcome {
	wanted := []string{"reject_once", "reject_always"}
	if allowed {
		wanted = []string{"allow_once"}
		if everything {
			wanted = append(wanted, "allow_always")
		}
		wanted = append(wanted, "reject_once", "reject_always")
	}
	for _, kind := range wanted {
		for _, option := range options {
			if option.Kind == kind {
				return outcome{Outcome: "selected", OptionID: option.ID}
			}
		}
	}
	return cancelledOutcome
}

var cancelledOutcome = outcome{Outcome: "cancelled"}
