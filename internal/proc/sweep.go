package proc

import (
	"context"
	"errors"
	"fmt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Sweep ends what earlier instances of the daemon left running and clears
// their entries. Starts wait for it. A recorded pid counts only if it has the
// recorded start time in the recorded boot; all else is found by its runtime
// id, so a stranger is never hit. It is harmless after a clean exit.
//
// On an error the entries that it could not finish stay for the next sweep.
func (s *Starter) Sweep(ctx context.Context) error {
	end := s.beginSweep()
	defer end()
	stored, err := s.Ledger.All()
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	left, ids := s.leftovers(stored)
	if len(left) == 0 {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := fault.Point("proc.sweep.before"); err != nil {
		return err
	}
	if err := killLeft(left, ids); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if err := fault.Point("proc.sweep.killed"); err != nil {
		return err
	}
	var failed error
	for _, e := range left {
		if err := s.Ledger.Delete(e.RuntimeID); err != nil {
			failed = errors.Join(failed, fmt.Errorf("clear ledger entry %s: %w", e.RuntimeID, err))
		}
		if err := fault.Point("proc.sweep.cleared"); err != nil {
			return errors.Join(failed, err)
		}
	}
	s.Log.Info().Int("runtimes", len(left)).Msg("cleared what an earlier run of the daemon left")
	return failed
}

// leftovers returns the entries of other instances. One that cannot be read is
// still swept by its id.
func (s *Starter) leftovers(stored map[string][]byte) ([]Entry, map[string]bool) {
	var left []Entry
	ids := make(map[string]bool)
	for id, value := range stored {
		e, err := decodeEntry(id, value)
		if err != nil {
			s.Log.Warn().Err(err).Msg("a ledger entry cannot be read; its processes are looked for by their id")
			e = Entry{RuntimeID: id}
		}
		if e.Instance == s.Instance {
			continue
		}
		left = append(left, e)
		ids[id] = true
	}
	return left, ids
}

// killLeft kills the groups whose leaders can still be recognised, which is
// asked anew for each round, and all that carries the ids.
func killLeft(left []Entry, ids map[string]bool) error {
	var failed error
	for range killRounds {
		wanted := targets{ids: ids, groups: make(map[int]bool)}
		for _, e := range left {
			if isRecorded(e) {
				wanted.groups[e.PID] = true
			}
		}
		_, failed = killRound(wanted)
	}
	return failed
}

// HoldStarts makes starts wait for the end of a sweep that has yet to begin. It is
// called once, before the first start.
func (s *Starter) HoldStarts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeping, s.held = make(chan struct{}), true
}

// beginSweep makes starts wait until the returned function is called.
func (s *Starter) beginSweep() (end func()) {
	running := make(chan struct{})
	s.mu.Lock()
	before := s.sweeping
	if s.held { // those who wait already wait for this sweep
		running, before, s.held = s.sweeping, nil, false
	}
	s.sweeping = running
	s.mu.Unlock()
	if before != nil {
		<-before
	}
	return func() {
		s.mu.Lock()
		if s.sweeping == running {
			s.sweeping = nil
		}
		s.mu.Unlock()
		close(running)
	}
}

func (s *Starter) awaitSweep(ctx context.Context) error {
	s.mu.Lock()
	sweeping := s.sweeping
	s.mu.Unlock()
	if sweeping == nil {
		return nil
	}
	select {
	case <-sweeping:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
