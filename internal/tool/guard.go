package tool

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// guard charges the work of one subschema, by way of its format. Where the
// library's own way could be made slow or would tell the wrong place, it also
// carries out a keyword itself.
type guard struct {
	program *program
	schema  *jsonschema.Schema

	entry   int                  // the cost of beginning this subschema, see entryCost
	inPlace []*jsonschema.Schema // subschemas for the same value
	fixed   int                  // the cost of beginning inPlace, and of lists of names
	walks   bool                 // it has subschemas for members or items

	dynamicRefs int                  // dynamic references, of which there are two kinds
	dynamic     []*jsonschema.Schema // what they may mean
	dearest     int                  // the highest cost of beginning one of these

	uniqueItems   bool
	propertyNames *jsonschema.Schema
}

// guardAll puts a guard on every compiled subschema, and refuses a schema that
// could go round in circles on one value.
func (p *program) guardAll() error {
	for s := range p.guards {
		g := newGuard(p, s)
		p.guards[s] = g
		p.unevaluated = p.unevaluated || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
		if s.DynamicAnchor != "" || s.RecursiveAnchor {
			p.anchors[s.DynamicAnchor] = append(p.anchors[s.DynamicAnchor], s)
		}
	}
	for _, g := range p.guards {
		for _, child := range g.inPlace {
			g.fixed += p.entryOf(child)
		}
		g.findDynamic()
	}
	chains := make(map[*jsonschema.Schema]int, len(p.guards))
	for s := range p.guards {
		chain, err := p.chainFrom(s, chains)
		if err != nil {
			return err
		}
		p.chain = max(p.chain, chain)
	}
	if p.chain > maxChain {
		return fmt.Errorf("%d subschemas apply to one value inside each other, %d are allowed", p.chain, maxChain)
	}
	for _, g := range p.guards {
		g.install()
	}
	return nil
}

func newGuard(p *program, s *jsonschema.Schema) *guard {
	g := &guard{program: p, schema: s, entry: entryCost(s), uniqueItems: s.UniqueItems, propertyNames: s.PropertyNames}
	if s.Ref != nil {
		g.inPlace = append(g.inPlace, s.Ref)
		if s.DraftVersion < 2019 {
			return g // what stands beside $ref is ignored in these drafts
		}
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, {s.Not, s.If, s.Then, s.Else}} {
		for _, child := range list {
			if child != nil {
				g.inPlace = append(g.inPlace, child)
			}
		}
	}
	for _, child := range s.DependentSchemas {
		g.inPlace = append(g.inPlace, child)
	}
	names := len(s.Required) + len(s.Dependencies) + len(s.DependentSchemas)
	for _, dependency := range s.Dependencies {
		switch dependency := dependency.(type) {
		case *jsonschema.Schema:
			g.inPlace = append(g.inPlace, dependency)
		case []string:
			names += len(dependency)
		}
	}
	for _, required := range s.DependentRequired {
		names += 1 + len(required)
	}
	g.fixed = names / membersPerStep
	g.walks = len(s.Properties)+len(s.PatternProperties)+len(s.PrefixItems) > 0 || isSchema(s.AdditionalProperties) ||
		s.UnevaluatedProperties != nil || s.PropertyNames != nil || s.Items != nil || isSchema(s.AdditionalItems) ||
		s.Items2020 != nil || s.Contains != nil || s.UnevaluatedItems != nil
	return g
}

func isSchema(keyword any) bool {
	_, ok := keyword.(*jsonschema.Schema)
	return ok
}

// findDynamic notes what the subschema's dynamic references may mean, as far as
// can be known without a value.
func (g *guard) findDynamic() {
	s, p := g.schema, g.program
	if s.RecursiveRef != nil {
		g.dynamicRefs++
		g.dynamic = append(append(g.dynamic, s.RecursiveRef), p.anchors[""]...)
	}
	if s.DynamicRef != nil {
		g.dynamicRefs++
		g.dynamic = append(g.dynamic, s.DynamicRef.Ref)
		if s.DynamicRef.Anchor != "" {
			g.dynamic = append(g.dynamic, p.anchors[s.DynamicRef.Anchor]...)
		}
	}
	for _, target := range g.dynamic {
		g.dearest = max(g.dearest, p.entryOf(target))
	}
}

// chainFrom returns how many subschemas apply inside each other to a value that
// s applies to. found is what is known already.
func (p *program) chainFrom(s *jsonschema.Schema, found map[*jsonschema.Schema]int) (int, error) {
	const underWay = -1
	g := p.guards[s]
	if g == nil {
		return 1, nil // no keywords
	}
	if known := found[s]; known == underWay {
		return 0, errors.New("a subschema applies itself again to the same value, without end")
	} else if known > 0 {
		return known, nil
	}
	found[s] = underWay
	longest := 0
	for _, children := range [][]*jsonschema.Schema{g.inPlace, g.dynamic} {
		for _, child := range children {
			chain, err := p.chainFrom(child, found)
			if err != nil {
				return 0, err
			}
			longest = max(longest, chain)
		}
	}
	found[s] = 1 + longest
	return found[s], nil
}

// install puts the guard in the place of the subschema's format, which is an
// annotation, and of the keywords that it carries out.
func (g *guard) install() {
	s := g.schema
	s.Format = &jsonschema.Format{Name: "guard", Validate: func(v any) error {
		g.program.budget.charge(g.work(v), v)
		return nil
	}}
	if g.uniqueItems || g.propertyNames != nil {
		s.UniqueItems, s.PropertyNames = false, nil
		s.Extensions = append(s.Extensions, g)
	}
}

// Validate carries out uniqueItems and propertyNames. It is called by the
// library.
func (g *guard) Validate(ctx *jsonschema.ValidatorContext, v any) {
	switch v := v.(type) {
	case []any:
		if g.uniqueItems {
			g.checkUnique(ctx, v)
		}
	case map[string]any:
		if g.propertyNames != nil {
			g.checkNames(ctx, v)
		}
	}
}

// checkUnique compares by canonical form. The library compares by a hash for
// which equal values of different items are easily found.
func (g *guard) checkUnique(ctx *jsonschema.ValidatorContext, items []any) {
	seen := make(map[string]int, len(items))
	for i, item := range items {
		form := string(appendCanonical(nil, item))
		g.program.budget.charge(1+len(form)/hashedPerStep, item)
		if first, twice := seen[form]; twice {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{first, i}})
			return
		}
		seen[form] = i
	}
}

// checkNames keeps the place of a bad name, which the library loses.
func (g *guard) checkNames(ctx *jsonschema.ValidatorContext, members map[string]any) {
	for name := range members {
		var violation *jsonschema.ValidationError
		if err := ctx.Validate(g.propertyNames, name, []string{name}); errors.As(err, &violation) {
			ctx.AddErrors([]*jsonschema.ValidationError{violation}, &kind.PropertyNames{Property: name})
		}
	}
}
