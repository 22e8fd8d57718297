package tool

import (
	"encoding/json" // for Number
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// How much of other work counts as one evaluation, which takes about half a
// microsecond. What an ordinary schema does comes to nothing by these; they
// stop the ways to make a single evaluation long.
const (
	membersPerStep   = 16   // of an object or array that a subschema walks over
	notedPerStep     = 4    // members noted down as not evaluated yet
	bytesPerStep     = 1024 // of a text whose length is counted
	digitsPerStep    = 32   // of a number, which is computed with as a fraction
	chainPerStep     = 32   // subschemas looked through for a dynamic reference
	hashedPerStep    = 32   // bytes of items whose uniqueness is checked
	depthPerStep     = 32   // levels of the arguments, each a step in the place of a violation
	constantsPerStep = 64   // weights of the values under enum and const

	textWeight      = 1  // of a constant, plus one for each constantsPerStep bytes
	numberWeight    = 32 // plus its digits
	containerWeight = 2  // plus its content
)

// entryCost returns what it costs to begin a subschema: one, and the comparison
// with its constants, which comes before anything can be charged.
func entryCost(s *jsonschema.Schema) int {
	weight := 0
	if s.Const != nil {
		weight += constantWeight(*s.Const)
	}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			weight += constantWeight(v)
		}
	}
	return 1 + weight/constantsPerStep
}

func constantWeight(v any) int {
	switch v := v.(type) {
	case string:
		return textWeight + len(v)/constantsPerStep
	case json.Number:
		return numberWeight + digits(v)
	case []any:
		weight := containerWeight
		for _, item := range v {
			weight += constantWeight(item)
		}
		return weight
	case map[string]any:
		weight := containerWeight
		for _, value := range v {
			weight += textWeight + constantWeight(value)
		}
		return weight
	}
	return textWeight
}

// digits returns about how many decimal digits a number has when it is written
// out.
func digits(n json.Number) int {
	i := strings.IndexAny(string(n), "eE")
	if i < 0 {
		return len(n)
	}
	exponent, _ := strconv.Atoi(string(n[i+1:])) // decode has looked at it
	return i + max(exponent, -exponent)
}

// entryOf returns the cost of beginning a subschema.
func (p *program) entryOf(s *jsonschema.Schema) int {
	if g := p.guards[s]; g != nil {
		return g.entry
	}
	return 1 // no keywords
}

// beginning returns the cost of beginning a subschema on a value: what it does
// before its guard is asked.
func (p *program) beginning(s *jsonschema.Schema, v any) int { return p.entryOf(s) + p.approach(v) }

// approach returns what a value adds to the cost of beginning any subschema: a
// violation tells its place, a number is compared with the type integer, and
// where the schema asks for unevaluated members, those of the value are noted
// down.
func (p *program) approach(v any) int {
	steps := p.budget.depth / depthPerStep
	if n, ok := v.(json.Number); ok {
		return steps + digits(n)/digitsPerStep
	}
	if p.unevaluated {
		return steps + lengthOf(v)/notedPerStep
	}
	return steps
}

func lengthOf(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	return 0
}

// work returns the cost of all that the subschema does with a value, up to the
// beginning of the subschemas that it applies.
func (g *guard) work(v any) int {
	steps := g.fixed + len(g.inPlace)*g.program.approach(v)
	if g.dynamicRefs > 0 {
		search := g.program.budget.depth * g.program.chain / chainPerStep
		steps += g.dynamicRefs * (g.dearest + g.program.approach(v) + search)
	}
	switch v := v.(type) {
	case string:
		steps += len(v) / bytesPerStep
	case json.Number:
		steps += digits(v) / digitsPerStep
	case []any:
		steps += len(v) / membersPerStep
		if g.walks {
			steps += g.itemWork(v)
		}
	case map[string]any:
		steps += len(v) / membersPerStep
		if g.walks {
			steps += g.memberWork(v)
		}
	}
	return steps
}

// memberWork returns the cost of beginning the subschemas of an object's
// members.
func (g *guard) memberWork(members map[string]any) int {
	s, p := g.schema, g.program
	steps := 0
	if g.propertyNames != nil {
		steps = len(members) * p.entryOf(g.propertyNames)
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, value := range members {
		if child, ok := s.Properties[name]; ok {
			steps += p.beginning(child, value)
		} else if additional != nil {
			steps += p.beginning(additional, value)
		}
		for _, child := range s.PatternProperties {
			steps += p.beginning(child, value)
		}
		if s.UnevaluatedProperties != nil {
			steps += p.beginning(s.UnevaluatedProperties, value)
		}
	}
	return steps
}

// itemWork returns the cost of beginning the subschemas of an array's items.
func (g *guard) itemWork(items []any) int {
	s, p := g.schema, g.program
	every, _ := s.Items.(*jsonschema.Schema)
	first, _ := s.Items.([]*jsonschema.Schema)
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	first = append(first[:len(first):len(first)], s.PrefixItems...)
	steps := 0
	for i, item := range items {
		if i < len(first) {
			steps += p.beginning(first[i], item)
		}
		for _, child := range []*jsonschema.Schema{every, additional, s.Items2020, s.Contains, s.UnevaluatedItems} {
			if child != nil {
				steps += p.beginning(child, item)
			}
		}
	}
	return steps
}
