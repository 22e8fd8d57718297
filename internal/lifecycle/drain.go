package lifecycle

import (
	"context"
	"time"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// unloadedLimit is how long a clean shutdown may spend on threads that nobody has
// loaded.
const unloadedLimit = time.Second

// Drain refuses new commands, ends the operations that run and the threads that
// cannot outlive this daemon, and gives subscribers a moment to get all of it.
// It is the first half of a clean shutdown; requests that wait are answered.
func (s *Service) Drain(ctx context.Context) {
	s.closing.Store(true)
	actors := s.registry.all()
	for _, a := range actors {
		s.dismiss(a)
	}
	deadline := time.Now().Add(s.cfg.Durations.Farewell)
	for _, a := range actors {
		s.farewell(ctx, a, time.Until(deadline))
	}
	s.endUnloaded(ctx)
}

func (s *Service) dismiss(a *actor) {
	s.cfg.Transfers.Abort(a.id)
	a.mail.put(thread.Shutdown{})
}

// farewell waits until the actor has handled its Shutdown, and then for its
// subscribers.
func (s *Service) farewell(ctx context.Context, a *actor, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0))
	defer cancel()
	if a.awaitHandled(ctx) == nil {
		a.ring.awaitWritten(a.ring.latest(), max(wait, 0))
	}
}

// noOperation is an id that no operation has: a cancel of it is answered false
// once everything before it was handled.
const noOperation = " "

// awaitHandled waits until the actor has handled and stored all that it was given
// before. The error says why that cannot be.
func (a *actor) awaitHandled(ctx context.Context) error {
	_, err := a.ask(ctx, func(id thread.CallerID) thread.Input { return thread.Cancel{Caller: id, OperationID: noOperation} })
	return err
}

// endUnloaded ends the threads that cannot outlive this daemon and that nobody has
// loaded, a few at a time, and stops at the first trouble. Those that are left are
// ended when a later daemon loads them.
func (s *Service) endUnloaded(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, unloadedLimit)
	defer cancel()
	for after := ""; ctx.Err() == nil; {
		ids, err := s.cfg.Store.EndWithDaemon(after, sweepParallel)
		if err != nil {
			s.cfg.Log.Warn().Err(err).Msg("threads that end with the daemon could not be listed; they are ended after the next start")
			return
		}
		if len(ids) == 0 || !s.endChunk(ctx, ids) {
			return
		}
		after = ids[len(ids)-1]
	}
}

// endChunk ends a few threads at once and reports whether all went well.
func (s *Service) endChunk(ctx context.Context, ids []string) (ended bool) {
	ended = true
	actors := make([]*actor, 0, len(ids))
	for _, id := range ids {
		a, err := s.open(ctx, id)
		if err != nil {
			ended = false
			continue
		}
		s.dismiss(a)
		actors = append(actors, a)
	}
	for _, a := range actors {
		if a.awaitHandled(ctx) != nil {
			ended = false
		}
		s.registry.release(a)
	}
	return ended
}
