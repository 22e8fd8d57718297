package thread

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/tool"
)

// What a page registers, under names for packages that carry it and do not deal
// with tools themselves.
type (
	Skills    = tool.Skills
	Tool      = tool.Tool
	ToolNames = tool.Names
)

// ModelNames gives each tool the name under which models know it; see
// tool.ModelNames.
func ModelNames(tools []Tool) ToolNames { return tool.ModelNames(tools) }

// ObjectSchema returns an argument schema as agents' protocols want it; see
// tool.ObjectSchema.
func ObjectSchema(schema jsontext.Value) jsontext.Value { return tool.ObjectSchema(schema) }

// Limits that those who carry it need.
const (
	MaxTools       = tool.MaxTools
	MaxToolTimeout = tool.MaxTimeout
)
