package store

import (
	"time"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// maxToolsAhead bounds the memory that a damaged count can ask for.
const maxToolsAhead = 256

func (e *encoder) skills(s *thread.Skills) {
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

func decodeSkills(v []byte) (*thread.Skills, error) {
	d := decoder{b: v}
	d.version()
	s := &thread.Skills{Guidance: d.string()}
	if n := d.count(); n > 0 {
		s.Tools = make([]thread.Tool, 0, min(n, maxToolsAhead))
		for range n {
			s.Tools = append(s.Tools, thread.Tool{
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
