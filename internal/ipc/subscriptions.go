package ipc

import (
	"sync"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// subscriptions are the feeds of one connection and the pump that writes what
// they carry. The pump starts with the first feed.
type subscriptions struct {
	out  *outbox
	lost func(threadID string, err error) // a feed cannot go on; the connection must close
	told func(lines int)                  // lines were handed to the operating system
	open func(change int)                 // so many more subscriptions are open
	run  func(pump func())                // runs the pump on a goroutine of its own

	wake chan struct{} // room for one; every feed signals it
	quit chan struct{} // closed when no event may be written any more
	done chan struct{} // closed when the pump returned, or was never started

	mu       sync.Mutex
	feeds    []*subscription
	promised int // feeds that are not there yet
	started  bool
	closed   bool
	flushing bool // write what is ready, then stop
}

// subscription is one feed. Its flag is guarded by subscriptions.mu.
type subscription struct {
	threadID string
	feed     thread.Feed
	removed  bool
}

func newSubscriptions(out *outbox) *subscriptions {
	return &subscriptions{
		out:  out,
		wake: make(chan struct{}, 1),
		quit: make(chan struct{}),
		done: make(chan struct{}),
	}
}

// promise keeps room for a feed of a thread, if there is any. It is followed by
// add or by forgo.
func (s *subscriptions) promise(threadID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.feeds)+s.promised >= MaxSubscriptions && s.find(threadID) < 0 {
		return false
	}
	s.promised++
	return true
}

// any reports whether there is a subscription.
func (s *subscriptions) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.feeds) > 0
}

// forgo gives back the room that was promised to a feed.
func (s *subscriptions) forgo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised--
}

// add makes a feed flow for which room was promised. On a connection whose
// subscriptions have ended it is closed at once.
func (s *subscriptions) add(threadID string, feed thread.Feed) {
	s.mu.Lock()
	s.promised--
	if s.closed {
		s.mu.Unlock()
		feed.Close()
		return
	}
	s.feeds = append(s.feeds, &subscription{threadID: threadID, feed: feed})
	start := !s.started
	s.started = true
	s.mu.Unlock()
	s.open(1)
	if start {
		s.run(s.pump)
	}
	s.signal()
}

// remove ends the subscription of a thread and reports whether there was one.
// An answer that is written afterwards is followed by none of its events.
func (s *subscriptions) remove(threadID string) bool {
	s.mu.Lock()
	i := s.find(threadID)
	if i < 0 {
		s.mu.Unlock()
		return false
	}
	sub := s.feeds[i]
	sub.removed = true
	s.feeds = append(s.feeds[:i:i], s.feeds[i+1:]...)
	s.mu.Unlock()
	s.open(-1)
	sub.feed.Close()
	return true
}

func (s *subscriptions) find(threadID string) int {
	for i, sub := range s.feeds {
		if sub.threadID == threadID {
			return i
		}
	}
	return -1
}

// close ends all subscriptions at once. It does not wait for a write that is
// under way; see wait.
func (s *subscriptions) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	feeds := s.feeds
	s.feeds = nil
	for _, sub := range feeds {
		sub.removed = true
	}
	if !s.started {
		close(s.done)
	}
	s.mu.Unlock()
	close(s.quit)
	s.open(-len(feeds))
	for _, sub := range feeds {
		sub.feed.Close()
	}
}

// flush lets the pump write what is ready and returns when it has stopped.
func (s *subscriptions) flush() {
	s.mu.Lock()
	s.flushing = true
	started := s.started
	s.mu.Unlock()
	if started {
		s.signal()
		<-s.done
	}
}

// wait returns when the pump has stopped; close or flush was called before.
func (s *subscriptions) wait() { <-s.done }

func (s *subscriptions) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // the pump is called already
	}
}

// pump writes events until the subscriptions are closed, a write fails, or all
// that was ready at a flush is written.
func (s *subscriptions) pump() {
	defer close(s.done)
	var round []*subscription
	for {
		select {
		case <-s.quit:
			return
		case <-s.wake:
		}
		for again := true; again; {
			round = s.list(round[:0])
			var err error
			if again, err = s.round(round); err != nil {
				return
			}
		}
		if s.isFlushing() {
			return
		}
		s.out.sink.rest()
	}
}

// round takes once from each feed, so that a busy one starves no other. It
// reports whether anything was there.
func (s *subscriptions) round(feeds []*subscription) (busy bool, err error) {
	for _, sub := range feeds {
		if !s.isLive(sub) {
			continue
		}
		lines, last, err := sub.feed.Take(writeBatchBytes)
		if err != nil {
			s.remove(sub.threadID)
			s.lost(sub.threadID, err)
			continue
		}
		if len(lines) == 0 {
			continue
		}
		busy = true
		written, err := s.out.events(lines, func() bool { return s.isLive(sub) })
		if err != nil {
			return false, err
		}
		if written {
			sub.feed.Written(last)
			s.told(len(lines))
		}
	}
	return busy, nil
}

func (s *subscriptions) list(into []*subscription) []*subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(into, s.feeds...)
}

func (s *subscriptions) isLive(sub *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !sub.removed
}

func (s *subscriptions) isFlushing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushing
}
