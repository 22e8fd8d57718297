package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// What model servers take as the name of a function, with room for the prefix
// that agents put before it (64 bytes in all).
const (
	MaxModelNameBytes  = 48
	modelNameHashBytes = 4 // shown as hexadecimal digits
)

var modelNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,48}$`)

// Names is the two-way map between the names of tools and those under which
// models know them. Treat both maps as read-only.
type Names struct {
	Model map[string]string // tool name → name for models
	Tool  map[string]string // name for models → tool name
}

// ModelNames gives each tool a name that matches [A-Za-z0-9_-]{1,48}: its own
// where that fits, else one that is cut, with underscores for dots and the
// beginning of a hash of the full name. No two tools share a name, and the
// order of the tools does not matter.
func ModelNames(tools []Tool) Names {
	n := Names{Model: make(map[string]string, len(tools)), Tool: make(map[string]string, len(tools))}
	var unfit []string
	for _, t := range tools {
		if modelNamePattern.MatchString(t.Name) {
			n.add(t.Name, t.Name)
		} else {
			unfit = append(unfit, t.Name)
		}
	}
	slices.Sort(unfit)
	for _, name := range slices.Compact(unfit) {
		n.add(name, n.shortened(name))
	}
	return n
}

func (n Names) add(toolName, modelName string) {
	n.Model[toolName] = modelName
	n.Tool[modelName] = toolName
}

// shortened returns a free name for models. Each further round hashes the hash
// before, in case a page has a tool whose name is just the one wanted.
func (n Names) shortened(toolName string) string {
	plain := strings.ReplaceAll(toolName, ".", "_")
	plain = plain[:min(len(plain), MaxModelNameBytes-1-2*modelNameHashBytes)]
	for sum := sha256.Sum256([]byte(toolName)); ; sum = sha256.Sum256(sum[:]) {
		name := plain + "_" + hex.EncodeToString(sum[:modelNameHashBytes])
		if _, taken := n.Tool[name]; !taken {
			return name
		}
	}
}
