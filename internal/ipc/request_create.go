package ipc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// createPayload is the payload of create_thread. Words are checked here; what
// they lead to is the lifecycle's business.
type createPayload struct {
	Provider    *string           `json:"provider"`
	EffortLevel *string           `json:"effortLevel"`
	Skills      *skillsPayload    `json:"skills"`
	Workspace   *workspacePayload `json:"workspace"`
	AutoEnd     *bool             `json:"autoEndOnDisconnect"`
}

type skillsPayload struct {
	Guidance *string        `json:"guidance"`
	Tools    *[]toolPayload `json:"tools"`
}

type toolPayload struct {
	Name        *string        `json:"name"`
	Description *string        `json:"description"`
	ArgsSchema  jsontext.Value `json:"argsSchema"`
	TimeoutMs   *uint64        `json:"timeoutMs"`
}

type workspacePayload struct {
	Path *string `json:"path"`
}

func (p *createPayload) check() error {
	if p.Provider == nil {
		return missing("provider")
	}
	if _, ok := thread.ParseProvider(*p.Provider); !ok {
		return fmt.Errorf("provider %q is not known", cutText(*p.Provider, 64))
	}
	if p.EffortLevel != nil {
		if _, ok := thread.ParseEffort(*p.EffortLevel); !ok {
			return errors.New("effortLevel is default, low or high")
		}
	}
	if p.Workspace != nil && p.Workspace.Path == nil {
		return missing("workspace.path")
	}
	if p.Skills == nil {
		return nil
	}
	return p.Skills.check()
}

func (p *skillsPayload) check() error {
	if p.Guidance == nil {
		return missing("skills.guidance")
	}
	if p.Tools == nil {
		return missing("skills.tools")
	}
	for i, t := range *p.Tools {
		if t.Name == nil {
			return missing(fmt.Sprintf("skills.tools[%d].name", i))
		}
		if t.Description == nil {
			return missing(fmt.Sprintf("skills.tools[%d].description", i))
		}
		if t.ArgsSchema == nil {
			return missing(fmt.Sprintf("skills.tools[%d].argsSchema", i))
		}
	}
	return nil
}

func createThread(ctx context.Context, c *call, p *createPayload, dst []byte) ([]byte, error) {
	r := thread.CreateRequest{AutoEnd: p.AutoEnd != nil && *p.AutoEnd}
	r.Provider, _ = thread.ParseProvider(*p.Provider)
	if p.EffortLevel != nil {
		r.Effort, _ = thread.ParseEffort(*p.EffortLevel)
	}
	if p.Workspace != nil {
		r.WorkspacePath = p.Workspace.Path
	}
	if p.Skills != nil {
		skills, err := p.Skills.skills()
		if err != nil {
			return nil, err
		}
		r.Skills = skills
	}
	id, err := c.server.threads.Create(ctx, c.caller, r)
	if err != nil {
		return nil, err
	}
	return appendThreadID(dst, id), nil
}

// skills converts the payload; which rules a manifest must keep is decided by
// its Check, in its own place among the checks of a creation.
func (p *skillsPayload) skills() (*thread.Skills, error) {
	s := &thread.Skills{Guidance: *p.Guidance, Tools: make([]thread.Tool, 0, len(*p.Tools))}
	for _, t := range *p.Tools {
		schema := t.ArgsSchema
		if err := schema.Compact(); err != nil {
			return nil, fmt.Errorf("compact argsSchema: %w", err) // cannot be: it was decoded
		}
		s.Tools = append(s.Tools, thread.Tool{
			Name:        *t.Name,
			Description: *t.Description,
			ArgsSchema:  schema,
			Timeout:     timeoutOf(t.TimeoutMs),
		})
	}
	return s, nil
}

// timeoutOf converts timeoutMs. Absent is 0, for which the manifest fills in
// the default; an explicit 0 becomes a negative duration, which it refuses.
func timeoutOf(ms *uint64) time.Duration {
	if ms == nil {
		return 0
	}
	if *ms == 0 {
		return -1
	}
	capped := min(*ms, uint64(thread.MaxToolTimeout.Milliseconds()))
	return time.Duration(capped) * time.Millisecond
}

func appendThreadID(dst []byte, id string) []byte {
	dst = append(dst, `{"threadId":`...)
	return append(appendString(dst, id), '}')
}
