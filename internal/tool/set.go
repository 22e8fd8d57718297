package tool

import (
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Set is the tools of one thread with their schemas, each compiled when it is
// first called. To free the schemas, drop the set.
type Set struct {
	now   func() time.Time
	tools map[string]*entry
}

// entry is a tool and, from its first call on, its schema.
type entry struct {
	tool    Tool
	compile func() (*Schema, error)
}

// NewSet returns the set of skills that [Skills.Check] has checked. now is the
// clock by which the time spent on patterns is measured.
func NewSet(skills Skills, now func() time.Time) *Set {
	s := &Set{now: now, tools: make(map[string]*entry, len(skills.Tools))}
	for _, t := range skills.Tools {
		s.tools[t.Name] = &entry{
			tool:    t,
			compile: sync.OnceValues(func() (*Schema, error) { return Compile(t.Name, t.ArgsSchema) }),
		}
	}
	return s
}

// Lookup returns the tool of this name.
func (s *Set) Lookup(name string) (Tool, bool) {
	e, ok := s.tools[name]
	if !ok {
		return Tool{}, false
	}
	return e.tool, true
}

// Check returns the call of a tool with these arguments, ready to be handed to
// the page. Errors: TOOL_NOT_FOUND with details {toolName}, those of
// [Tool.CheckArgs], and those of [Compile] should a stored schema no longer
// compile.
func (s *Set) Check(name string, args jsontext.Value) (Call, error) {
	e, ok := s.tools[name]
	if !ok {
		return Call{}, fault.New(fault.ToolNotFound, "The thread has no tool of this name.").With("toolName", shownName(name))
	}
	schema, err := e.compile()
	if err != nil {
		return Call{}, err
	}
	return e.tool.CheckArgs(schema, args, s.now)
}
