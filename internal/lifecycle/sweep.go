package lifecycle

import (
	"context"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// sweep settles what nobody asked for, some time after the start, and then keeps
// to the retention rules. Loading a thread settles it, so the sweeper only has
// to load: whoever asks for the thread meanwhile shares that load.
func (s *Service) sweep() {
	timer := time.NewTimer(s.cfg.Durations.SweepDelay)
	defer timer.Stop()
	settled := false
	for {
		select {
		case <-s.kill.Done():
			return
		case <-timer.C:
		}
		if s.closing.Load() {
			return
		}
		if !settled {
			var through bool
			if through, settled = s.settleAll(); !through {
				timer.Reset(s.cfg.Durations.SweepDelay)
				continue
			}
		}
		s.retain()
		s.shrink()
		timer.Reset(s.cfg.Durations.SweepEvery)
	}
}

// settleAll loads every thread that an earlier daemon left unsettled, a few at a
// time. It reports whether it came through and whether all are settled now. A thread
// that cannot be read or written, as on a damaged page, does not hold up the others;
// when more than a few cannot be settled it stops, so that a full disk does not fill
// the memory with threads, too.
func (s *Service) settleAll() (through, settled bool) {
	after, waiting, unreadable := "", 0, 0
	for s.kill.Err() == nil && !s.closing.Load() {
		ids, err := s.cfg.Store.Unsettled(after, sweepParallel)
		if err != nil {
			s.cfg.Log.Warn().Err(err).Msg("threads of an earlier run could not be listed; trying again later")
			return false, false
		}
		if len(ids) == 0 {
			return true, waiting+unreadable == 0
		}
		w, u := s.settleChunk(ids)
		if waiting, unreadable = waiting+w, unreadable+u; waiting >= sweepParallel {
			return false, false
		}
		after = ids[len(ids)-1]
	}
	return false, false
}

// settleChunk returns how many of some threads wait to be settled, and how many
// could not be loaded.
func (s *Service) settleChunk(ids []string) (waiting, unreadable int) {
	_ = fault.Point(PointBeforeSweep)
	actors := make([]*actor, 0, len(ids))
	for _, id := range ids {
		a, err := s.open(s.kill, id)
		if err != nil {
			s.cfg.Log.Warn().Err(err).Str(logThread, id).Msg("a thread of an earlier run could not be settled; trying again later")
			unreadable++
			continue
		}
		actors = append(actors, a)
	}
	for _, a := range actors {
		if a.awaitSettled(s.kill) != nil || a.unsettled.Load() {
			waiting++
		}
		s.registry.release(a)
	}
	return waiting, unreadable
}

// retain deletes threads that ended long ago and ends threads that were not used
// for long.
func (s *Service) retain() {
	now := s.cfg.Now()
	query := thread.ListQuery{Limit: thread.MaxListLimit}
	for s.kill.Err() == nil && !s.closing.Load() {
		page, err := s.cfg.Store.List(query)
		if err != nil {
			s.cfg.Log.Warn().Err(err).Msg("threads could not be listed for retention; trying again later")
			return
		}
		for _, t := range page.Threads {
			s.retainOne(t, now.Sub(t.UpdatedAt))
		}
		if page.Next == "" {
			return
		}
		query.After = page.Next
	}
}

func (s *Service) retainOne(t thread.Summary, unused time.Duration) {
	r := s.cfg.Retention
	switch {
	case t.Status == thread.Ended && r.Ended > 0 && unused > r.Ended:
		s.expire(t)
	case (t.Status == thread.Idle || t.Status == thread.Failed) && r.Idle > 0 && unused > r.Idle:
		s.expire(t)
	}
}

// expire ends a thread, or deletes an ended one, if it is still as it was when it
// was listed and nobody watches it. It reports whether that was done.
func (s *Service) expire(t thread.Summary) bool {
	a, err := s.open(s.kill, t.ThreadID)
	if err != nil {
		return false
	}
	defer s.registry.release(a)
	if now := a.ring.summary(); a.ring.watched() || !now.UpdatedAt.Equal(t.UpdatedAt) {
		return false
	}
	ctx, cancel := context.WithTimeout(s.kill, retentionPatience)
	defer cancel()
	s.cfg.Transfers.Abort(t.ThreadID)
	defer s.afterAbort(a)
	_, err = a.ask(ctx, func(id thread.CallerID) thread.Input { return thread.Expire{Caller: id, UpdatedAt: t.UpdatedAt} })
	if err != nil && !fault.Is(err, fault.ThreadBusy) {
		s.cfg.Log.Warn().Err(err).Str(logThread, t.ThreadID).Msg("retention of a thread failed; trying again later")
	}
	return err == nil
}

const (
	// retentionPatience bounds the wait for one thread, whose disk may be full.
	retentionPatience = time.Minute
	// shrinkStep is how many ended threads are deleted before the size of the
	// store is looked at again.
	shrinkStep = 200
)

// shrink deletes ended threads, oldest first, while the store is too large.
func (s *Service) shrink() {
	for s.cfg.Retention.StoreBytes > 0 && s.kill.Err() == nil && !s.closing.Load() {
		used, err := s.cfg.Store.UsedBytes()
		if err != nil || used <= s.cfg.Retention.StoreBytes {
			return
		}
		oldest, err := s.cfg.Store.EndedOldestFirst(shrinkStep)
		if err != nil || len(oldest) == 0 {
			s.cfg.Log.Warn().Err(err).Int64("bytes", used).Msg("the database is larger than the settings allow, and no ended thread is left to delete")
			return
		}
		deleted := 0
		for _, t := range oldest {
			if s.expire(t) {
				deleted++
			}
		}
		if deleted == 0 {
			return
		}
	}
}

// watched reports whether somebody is subscribed.
func (r *ring) watched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.feeds) > 0
}
