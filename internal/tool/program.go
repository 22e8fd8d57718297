package tool

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaURL names the schema inside the library. Relative references resolve
// against it, to something that the loader refuses.
const schemaURL = "schema:///arguments"

// maxChain bounds how many subschemas may apply to one value inside each other
// ($ref, allOf, anyOf and so on). It keeps the validator's stack small.
const maxChain = 128

// program is a schema in the form of the library, with a guard on every
// subschema that counts the work of a check.
//
// The library has no budget of its own. Two of its extension points give it
// one: every compiled subschema has a Format, which it calls on a value before
// it descends into anything (formats are annotations here, so the place is
// free), and a vocabulary of ours is told of every subschema that is compiled,
// so that none stays unguarded, however a reference reaches it. The Format
// charges the budget in advance for all that the validator will do next, and
// leaves by a panic when nothing is left.
type program struct {
	mu     sync.Mutex // one check at a time: the guards find its budget here
	root   *jsonschema.Schema
	guards map[*jsonschema.Schema]*guard
	budget *budget

	anchors     map[string][]*jsonschema.Schema // the subschemas by $dynamicAnchor, and under "" those with $recursiveAnchor
	chain       int                             // the longest chain of subschemas that apply to one value
	unevaluated bool                            // some subschema has unevaluatedProperties or unevaluatedItems
}

// newProgram compiles a decoded schema. Its errors are clauses without a full
// stop, for a person.
func newProgram(root any, draft *jsonschema.Draft) (p *program, err error) {
	// The library takes what strangers wrote; should it stumble over it, that
	// is the schema's fault as far as the page is concerned.
	defer func() {
		if cause := recover(); cause != nil {
			p, err = nil, fmt.Errorf("it cannot be compiled: %v", cause)
		}
	}()
	p = &program{guards: map[*jsonschema.Schema]*guard{}, anchors: map[string][]*jsonschema.Schema{}}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(refuseEverything{})
	c.UseRegexpEngine(p.compilePattern)
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "schema:///guard",
		Schema:  annotations(draft),
		Compile: p.register,
	})
	c.AssertVocabs()
	if err := c.AddResource(schemaURL, root); err != nil {
		return nil, errors.New(tidy(err))
	}
	if p.root, err = c.Compile(schemaURL); err != nil {
		return nil, errors.New(tidy(err))
	}
	return p, p.guardAll()
}

// register is called by the library for every subschema with keywords.
func (p *program) register(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
	p.guards[ctx.Enqueue(nil)] = nil // the empty path is the subschema itself
	return nil, nil
}

// refuseEverything is the loader: a schema is complete in itself.
type refuseEverything struct{}

func (refuseEverything) Load(string) (any, error) {
	return nil, errors.New("nothing is loaded; a schema must be complete in itself")
}

// annotations returns the schema that the annotation keywords of a draft must
// fit. With a vocabulary of ours the library checks only the ones that
// validate, so this adds the rest. The drafts before 2019-09 have one schema
// for all keywords, which it always checks.
func annotations(draft *jsonschema.Draft) *jsonschema.Schema {
	switch draft {
	case jsonschema.Draft2019:
		return annotations2019()
	case jsonschema.Draft2020:
		return annotations2020()
	}
	return nil
}

var (
	annotations2019 = sync.OnceValue(func() *jsonschema.Schema {
		return jsonschema.NewCompiler().MustCompile("https://json-schema.org/draft/2019-09/meta/meta-data")
	})
	annotations2020 = sync.OnceValue(func() *jsonschema.Schema {
		return jsonschema.NewCompiler().MustCompile("https://json-schema.org/draft/2020-12/meta/meta-data")
	})
)

// validate checks a decoded value. depth is how deep it is nested. Its errors
// are clauses that name the failing places, without a full stop.
func (p *program) validate(v any, depth int, now func() time.Time) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = newBudget(v, depth, now)
	defer func() {
		p.budget = nil
		switch cause := recover().(type) {
		case nil:
		case *exhausted:
			err = cause
		default:
			err = fmt.Errorf("at '': they cannot be checked: %v", cause)
		}
	}()
	p.budget.charge(p.beginning(p.root, v), v)
	failed := p.root.Validate(v)
	if failed == nil {
		return nil
	}
	var violation *jsonschema.ValidationError
	if !errors.As(failed, &violation) {
		return failed
	}
	return errors.New(describe(violation))
}

// tidy returns the text of a compiler's error without our name of the schema.
func tidy(err error) string {
	var unfit *jsonschema.SchemaValidationError
	var violation *jsonschema.ValidationError
	if errors.As(err, &unfit) && errors.As(unfit.Err, &violation) {
		return describe(violation)
	}
	return shorten(strings.ReplaceAll(err.Error(), schemaURL, ""), maxErrorBytes)
}
