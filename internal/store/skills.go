package store

import (
	"time"

	"github.com/pedelec/pedelec-core/internal/tool"
)

func (e *encoder) skills(s *tool.Skills) {
	e.byte(valueVersion)
	e.string(s.Guidance)
	e.uint(uint64(len(s.Tools)))
	for i := range s.Tools {
		t := &s.Tools[i]
		e.string(t.Name)
		e.string(t.Description)
		e.bytes(t.ArgsSchema)
		e.uint(uint64(t.Timeout))
	}
}

func decodeSkills(v []byte) (*tool.Skills, error) {
	d := decoder{b: v}
	d.version()
	s := &tool.Skills{Guidance: d.string()}
	if n := d.count(); n > 0 {
		s.Tools = make([]tool.Tool, 0, min(n, tool.MaxTools))
		for range n {
			s.Tools = append(s.Tools, tool.Tool{
				Name:        d.string(),
				Description: d.string(),
				ArgsSchema:  d.raw(),
				Timeout:     time.Duration(d.uint()),
			})
			if d.err != nil {
				break
			}
		}
	}
	return s, d.end()
}
