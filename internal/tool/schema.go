package tool

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of an argument schema besides [MaxSchemaBytes].
const (
	MaxSchemaDepth = 64 // arrays and objects inside each other

	// maxSubschemas bounds the objects and booleans in a schema, each of which
	// may be a subschema: compiling takes time with the square of their number.
	// Sixty-four kilobytes of ordinary schema have about two thousand.
	maxSubschemas = 4096

	// maxFarRefs bounds the references to places where a schema does not stand
	// by itself, such as #/components/schemas/x: for each of them the library
	// copies what it knows of all subschemas.
	maxFarRefs = 256
)

// drafts are the versions of JSON Schema by their $schema, without scheme and
// empty fragment.
var drafts = map[string]*jsonschema.Draft{
	"json-schema.org/draft-04/schema":      jsonschema.Draft4,
	"json-schema.org/draft-06/schema":      jsonschema.Draft6,
	"json-schema.org/draft-07/schema":      jsonschema.Draft7,
	"json-schema.org/draft/2019-09/schema": jsonschema.Draft2019,
	"json-schema.org/draft/2020-12/schema": jsonschema.Draft2020,
}

// Schema is a compiled argument schema.
type Schema struct {
	program *program
	defines map[string]bool // the names under the root's properties
}

// ObjectSchema returns an argument schema whose root says in one word that it is of
// an object, as agents' protocols demand it. Arguments are always an object, so a root
// that says so in other words, or not at all, means the same.
func ObjectSchema(schema jsontext.Value) jsontext.Value {
	var members map[string]jsontext.Value
	if json.Unmarshal(schema, &members) != nil || members == nil { // the schema true
		return jsontext.Value(`{"type":"object"}`)
	}
	if string(members["type"]) == `"object"` {
		return schema
	}
	members["type"] = jsontext.Value(`"object"`)
	whole, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return jsontext.Value(`{"type":"object"}`) // cannot be: the members were just read
	}
	return whole
}

// Compile compiles the argument schema of a tool, or returns
// TOOLS_MANIFEST_INVALID with details {toolName, error}.
//
// The draft is 2020-12 unless $schema says 04, 06, 07 or 2019-09. The schema
// must be complete in itself: apart from the drafts' own schemas nothing is
// loaded from a file or an address. Patterns are those of ECMA-262, format is
// an annotation in every draft, and defaults are never filled in.
//
// The root must describe an object. That is refused only where it plainly does
// not: false, and a type without "object". {}, true and a root without a type
// are taken, since arguments are always an object.
func Compile(toolName string, schema jsontext.Value) (*Schema, error) {
	s, err := compile(schema)
	if err != nil {
		return nil, invalid(toolName, "The argsSchema is refused: "+err.Error()+".")
	}
	return s, nil
}

func compile(text jsontext.Value) (*Schema, error) {
	if len(text) > MaxSchemaBytes {
		return nil, fmt.Errorf("it has %d bytes, %d are allowed", len(text), MaxSchemaBytes)
	}
	root, facts, err := decode(text, MaxSchemaDepth)
	if err != nil {
		return nil, err
	}
	if facts.subschemas > maxSubschemas {
		return nil, fmt.Errorf("it has %d objects and booleans, %d are allowed", facts.subschemas, maxSubschemas)
	}
	if err := describesObject(root); err != nil {
		return nil, err
	}
	draft, err := draftOf(root)
	if err != nil {
		return nil, err
	}
	far := map[string]bool{}
	collectFarRefs(root, draft, far)
	if len(far) > maxFarRefs {
		return nil, fmt.Errorf("it refers to %d places other than definitions, %d are allowed", len(far), maxFarRefs)
	}
	p, err := newProgram(root, draft)
	if err != nil {
		return nil, err
	}
	s := &Schema{program: p, defines: map[string]bool{}}
	if object, ok := root.(map[string]any); ok {
		properties, _ := object["properties"].(map[string]any)
		for name := range properties {
			s.defines[name] = true
		}
	}
	return s, nil
}

// describesObject refuses a root that no object can satisfy by its own word.
func describesObject(root any) error {
	switch root := root.(type) {
	case bool:
		if !root {
			return fmt.Errorf("at '': false describes no object")
		}
		return nil
	case map[string]any:
		if describesType(root["type"], "object") {
			return nil
		}
		return fmt.Errorf("at '/type': the root of the schema must describe an object")
	}
	return fmt.Errorf("at '': a schema is an object or true")
}

// describesType reports whether the keyword type allows a type. What is neither
// a word nor a list is left to the compiler.
func describesType(keyword any, want string) bool {
	switch keyword := keyword.(type) {
	case string:
		return keyword == want
	case []any:
		for _, word := range keyword {
			if word == want {
				return true
			}
		}
		return false
	}
	return true
}

// draftOf returns the draft that a schema is written in.
func draftOf(root any) (*jsonschema.Draft, error) {
	object, _ := root.(map[string]any)
	keyword, given := object["$schema"]
	if !given {
		return jsonschema.Draft2020, nil
	}
	uri, ok := keyword.(string)
	if !ok {
		return nil, fmt.Errorf("at '/$schema': it is not a string")
	}
	name := strings.TrimSuffix(uri, "#")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "http://"), "https://")
	draft, ok := drafts[name]
	if !ok {
		return nil, fmt.Errorf("at '/$schema': %q is none of the drafts 04, 06, 07, 2019-09 and 2020-12", shorten(uri, maxPathBytes))
	}
	return draft, nil
}

var (
	nearRef     = regexp.MustCompile(`^#(?:[^/]*|/(?:\$defs|definitions)/[^/]+)$`)
	nearRefOld  = regexp.MustCompile(`^#(?:[^/]*|/definitions/[^/]+)$`) // before 2019-09
	refKeywords = []string{"$ref", "$dynamicRef", "$recursiveRef"}
)

// collectFarRefs adds to far what is under a keyword for references and is
// neither the root, an anchor nor a definition.
func collectFarRefs(in any, draft *jsonschema.Draft, far map[string]bool) {
	near := nearRefOld
	if draft == jsonschema.Draft2019 || draft == jsonschema.Draft2020 {
		near = nearRef
	}
	switch in := in.(type) {
	case []any:
		for _, item := range in {
			collectFarRefs(item, draft, far)
		}
	case map[string]any:
		for _, keyword := range refKeywords {
			if ref, ok := in[keyword].(string); ok && !near.MatchString(ref) {
				far[ref] = true
			}
		}
		for _, value := range in {
			collectFarRefs(value, draft, far)
		}
	}
}
