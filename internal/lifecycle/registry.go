package lifecycle

import (
	"context"
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// registry holds the loaded threads. An entry is placed before its thread is
// loaded and taken out before its actor leaves, both under one lock, so there
// are never two actors of one thread.
type registry struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is a thread that is loaded or being loaded.
type entry struct {
	ready chan struct{} // closed when actor or err is set
	actor *actor
	err   error
	refs  int // requests and feeds that use it
}

// acquire returns the actor of a thread, loading it if need be. The caller
// releases it. Whoever loaded it (first) must start it: a subscriber takes its
// cut before that, so that it sees the thread as a crash left it and then all
// that settling tells.
func (g *registry) acquire(ctx context.Context, id string, load func(id string) (*actor, error)) (a *actor, first bool, err error) {
	g.mu.Lock()
	e := g.entries[id]
	if e == nil {
		e = &entry{ready: make(chan struct{}), refs: 1}
		g.entries[id] = e
		g.mu.Unlock()
		a, err = g.load(e, id, load)
		return a, err == nil, err
	}
	e.refs++
	g.mu.Unlock()
	select {
	case <-e.ready:
		return e.actor, false, e.err
	case <-ctx.Done():
		g.giveUp(e)
		return nil, false, fault.Wrap(fault.Internal, "lifecycle.load", context.Cause(ctx), "The request was given up.")
	}
}

// load fills an entry, also when loading panics: others wait for it.
func (g *registry) load(e *entry, id string, load func(id string) (*actor, error)) (a *actor, err error) {
	err = fault.New(fault.Internal, "The thread could not be loaded.") // unless load returns
	defer func() {
		g.mu.Lock()
		e.actor, e.err = a, err
		if err != nil {
			delete(g.entries, id)
		}
		g.mu.Unlock()
		close(e.ready)
	}()
	a, err = load(id)
	return a, err
}

// giveUp gives back the reference of one who does not wait for the load.
func (g *registry) giveUp(e *entry) {
	g.mu.Lock()
	e.refs--
	unused := e.refs == 0 && e.actor != nil
	g.mu.Unlock()
	if unused {
		e.actor.mail.signal()
	}
}

// release gives a reference back.
func (g *registry) release(a *actor) {
	g.mu.Lock()
	last := false
	if e := g.entries[a.id]; e != nil && e.actor == a {
		e.refs--
		last = e.refs == 0
	}
	g.mu.Unlock()
	if last {
		a.mail.signal()
	}
}

// used reports whether somebody holds a reference to the actor.
func (g *registry) used(a *actor) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[a.id]
	return e != nil && e.actor == a && e.refs > 0
}

// remove takes an actor out if nobody uses it.
func (g *registry) remove(a *actor) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.entries[a.id]
	if e == nil || e.actor != a {
		return true
	}
	if e.refs > 0 {
		return false
	}
	delete(g.entries, a.id)
	return true
}

// evict takes an actor out although it is used: its thread was deleted.
func (g *registry) evict(a *actor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[a.id]; e != nil && e.actor == a {
		delete(g.entries, a.id)
	}
}

// all returns the actors that are loaded now.
func (g *registry) all() []*actor {
	g.mu.Lock()
	defer g.mu.Unlock()
	actors := make([]*actor, 0, len(g.entries))
	for _, e := range g.entries {
		select {
		case <-e.ready:
			if e.actor != nil {
				actors = append(actors, e.actor)
			}
		default:
		}
	}
	return actors
}

func notFound(id string) *fault.Error {
	if len(id) > maxIDBytes {
		id = id[:maxIDBytes]
	}
	return fault.New(fault.ThreadNotFound, "No thread has this id.").With("threadId", id)
}
