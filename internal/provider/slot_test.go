package provider

import (
	"testing"

	"github.com/pedelec/pedelec-core/internal/proc"
)

// idleRuntime has no session and runs nothing.
type idleRuntime struct{ Runtime }

func (idleRuntime) Load() Load              { return Load{} }
func (idleRuntime) Retire() bool            { return true }
func (idleRuntime) Broken() <-chan struct{} { return nil }

// TestAProcessThatStopsForIdlenessIsNotHandedOut asks for a process just after it was
// decided that it stops: an attach to it would fail, and the turn with it.
func TestAProcessThatStopsForIdlenessIsNotHandedOut(t *testing.T) {
	for name, p := range map[string]*pool{"shared": nil, "of one thread": {}} {
		t.Run(name, func(t *testing.T) {
			s := newSlot(&Manager{closed: true}, Driver{}, p)
			inst := &instance{slot: s, process: &proc.Process{}, runtime: idleRuntime{}, stop: make(chan struct{})}
			s.current, s.instances[inst] = inst, struct{}{}
			if !s.release(inst) {
				t.Fatal("an idle process is kept")
			}
			if ready, _, leaving, err := s.next(t.Context(), launch{}); ready != nil {
				t.Errorf("got it all the same (leaving %v, error %v)", leaving, err)
			}
		})
	}
}
