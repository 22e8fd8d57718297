package tool

import (
	"bytes"
	"encoding/json" // for Number
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Limits of a call's arguments.
const (
	MaxArgsBytes = 512 << 10
	MaxArgsDepth = 100 // arrays and objects inside each other
)

// timeoutMember is the member of the arguments by which an agent sets the
// timeout of one call, in milliseconds.
const timeoutMember = "timeoutMs"

var positiveInteger = regexp.MustCompile(`^[1-9][0-9]*$`)

// Call is a checked call of a tool.
type Call struct {
	Tool    string
	Args    jsontext.Value // an object, without the control value timeoutMs
	Timeout time.Duration  // of this call
	Key     Key            // equal for equal calls
}

// CheckArgs checks arguments against the tool's compiled schema. A top-level
// member timeoutMs that the schema does not define is a control value: a
// positive integer that replaces the tool's timeout, capped at [MaxTimeout],
// and does not reach the page. One that the schema defines is an argument like
// any other. now is the clock by which time spent on patterns is measured.
//
// Every error is TOOL_ARGS_INVALID: with details {toolName} for arguments that
// are no object, {toolName, field} for a bad timeoutMs, {toolName, error} for
// the rest, where error names the failing places as JSON pointers.
func (t Tool) CheckArgs(schema *Schema, args jsontext.Value, now func() time.Time) (Call, error) {
	if args.Kind() != '{' {
		return Call{}, argsInvalid(t.Name, "The arguments of a tool are a JSON object.")
	}
	if len(args) > MaxArgsBytes {
		return Call{}, argsRefused(t.Name, fmt.Sprintf("at '': the arguments have %d bytes, %d are allowed", len(args), MaxArgsBytes))
	}
	decoded, facts, err := decode(args, MaxArgsDepth)
	if err != nil {
		return Call{}, argsRefused(t.Name, err.Error())
	}
	members := decoded.(map[string]any) // the text begins with '{'
	call := Call{Tool: t.Name, Args: slices.Clone(args), Timeout: t.withTimeout().Timeout}
	if wish, ok := members[timeoutMember]; ok && !schema.defines[timeoutMember] {
		if call.Timeout, ok = timeoutOf(wish); !ok {
			return Call{}, argsInvalid(t.Name, "timeoutMs is a positive integer, in milliseconds.").With("field", timeoutMember)
		}
		delete(members, timeoutMember)
		call.Args = withoutMember(args, timeoutMember)
	}
	if err := schema.program.validate(members, facts.depth, now); err != nil {
		return Call{}, argsRefused(t.Name, err.Error())
	}
	call.Key = keyOf(t.Name, members)
	return call, nil
}

func timeoutOf(v any) (time.Duration, bool) {
	literal, ok := v.(json.Number)
	if !ok || !positiveInteger.MatchString(string(literal)) {
		return 0, false
	}
	ms, err := strconv.ParseInt(string(literal), 10, 64)
	if err != nil { // more than 64 bits, so over the cap
		return MaxTimeout, true
	}
	return time.Duration(min(ms, MaxTimeout.Milliseconds())) * time.Millisecond, true
}

// withoutMember returns a valid object without one member; the others keep
// their text and order.
func withoutMember(object jsontext.Value, member string) jsontext.Value {
	in := jsontext.NewDecoder(bytes.NewBuffer(object))
	out := append(make(jsontext.Value, 0, len(object)), '{')
	mustRead(in.ReadToken())
	for in.PeekKind() == '"' {
		name := slices.Clone(mustRead(in.ReadValue()))
		value := mustRead(in.ReadValue())
		if decoded, err := jsontext.AppendUnquote(nil, name); err == nil && string(decoded) == member {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}')
}

// mustRead is for text that was decoded before.
func mustRead[T any](v T, err error) T {
	if err != nil {
		panic("tool: text that was valid no longer is: " + err.Error())
	}
	return v
}

func argsInvalid(toolName, why string) *fault.Error {
	return fault.New(fault.ToolArgsInvalid, why).With("toolName", toolName)
}

func argsRefused(toolName, why string) error {
	return argsInvalid(toolName, "The arguments are refused: "+why+".").With("error", why)
}
