package tool

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Limits of a manifest.
const (
	MaxTools        = 256
	MaxNameBytes    = 128
	MaxManifest     = 512 << 10 // bytes of guidance, names, descriptions and schemas together
	MaxSchemaBytes  = 64 << 10
	DefaultTimeout  = 60 * time.Second
	MaxTimeout      = 24 * time.Hour
	namePatternText = `^[A-Za-z][A-Za-z0-9_.-]*$`
)

var namePattern = regexp.MustCompile(namePatternText)

// Tool is one function that a page offers to the agent.
type Tool struct {
	Name        string
	Description string
	ArgsSchema  jsontext.Value // JSON Schema whose root describes an object
	Timeout     time.Duration  // 0 until Check fills in the default
}

// Skills is what a page registers when it creates a thread: free guidance for
// the agent, and tools.
type Skills struct {
	Guidance string
	Tools    []Tool
}

// Check returns a copy of s with defaults filled in and long timeouts capped,
// or TOOLS_MANIFEST_INVALID with details {toolName, error}. After the manifest's
// own size the rules are applied tool by tool, in the order name, description,
// duplicate, schema, timeout. Every schema is compiled, and the result dropped:
// most tools of most threads are never called.
func (s Skills) Check() (Skills, error) {
	if len(s.Tools) > MaxTools {
		return Skills{}, invalid("", fmt.Sprintf("A thread may have %d tools; this manifest has %d.", MaxTools, len(s.Tools)))
	}
	checked := Skills{Guidance: s.Guidance, Tools: make([]Tool, 0, len(s.Tools))}
	seen := make(map[string]bool, len(s.Tools))
	size := len(s.Guidance)
	for _, t := range s.Tools {
		size += len(t.Name) + len(t.Description) + len(t.ArgsSchema)
	}
	if size > MaxManifest {
		return Skills{}, invalid("", fmt.Sprintf("The manifest has %d bytes; %d are allowed.", size, MaxManifest))
	}
	for _, t := range s.Tools {
		if err := t.check(seen); err != nil {
			return Skills{}, err
		}
		seen[t.Name] = true
		checked.Tools = append(checked.Tools, t.withTimeout())
	}
	return checked, nil
}

func (t Tool) check(seen map[string]bool) error {
	if len(t.Name) > MaxNameBytes || !namePattern.MatchString(t.Name) {
		return invalid(t.Name, fmt.Sprintf("A tool's name matches %s and has at most %d bytes.", namePatternText, MaxNameBytes))
	}
	if strings.TrimSpace(t.Description) == "" {
		return invalid(t.Name, "A tool needs a description.")
	}
	if seen[t.Name] {
		return invalid(t.Name, "Two tools have this name.")
	}
	if _, err := Compile(t.Name, t.ArgsSchema); err != nil {
		return err
	}
	if t.Timeout < 0 {
		return invalid(t.Name, "timeoutMs is greater than 0.")
	}
	return nil
}

func (t Tool) withTimeout() Tool {
	if t.Timeout == 0 {
		t.Timeout = DefaultTimeout
	}
	t.Timeout = min(t.Timeout, MaxTimeout)
	return t
}

func invalid(toolName, why string) error {
	return fault.New(fault.ToolsManifestInvalid, why).With("toolName", shownName(toolName)).With("error", why)
}

// shownName returns a name as errors repeat it, without half a code point at
// its end.
func shownName(name string) string {
	if len(name) <= MaxNameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:MaxNameBytes], "")
}
