package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// answerLimit is how long a daemon may take to answer whether it serves.
const answerLimit = 2 * time.Second

// connect finds the daemon that serves the home folder.
func (a *app) connect(ctx context.Context) (*ipc.Client, error) {
	home, err := ipc.Home(a.home)
	if err != nil {
		return nil, err
	}
	c, err := ipc.Dial(ctx, home)
	if fault.Is(err, fault.CoreRuntimeUnavailable) {
		return nil, unreached(home, err)
	}
	return c, err
}

// unreached says more of a daemon that could not be found: one that runs, but without
// the file that tells where, is not to be started beside itself.
func unreached(home string, err error) error {
	if _, unreadable := ipc.ReadRuntimeFile(home); unreadable == nil {
		return err
	}
	holder, held := lockedBy(home)
	if !held {
		return err
	}
	return fault.Wrap(fault.CoreRuntimeUnavailable, "cli.connect", err, fmt.Sprintf(
		"A pedelec-core%s runs but cannot be found, since %s is missing or cannot be read. It may be starting or leaving, and one that serves writes that file again within seconds. If this lasts, end that process and start again with: pedelec-core serve",
		holder, filepath.Join(home, ipc.RuntimeFileName)))
}

// serving finds the daemon that serves the home folder, unless that is on its way
// out.
func serving(ctx context.Context, home string) (f ipc.RuntimeFile, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	c, err := ipc.Dial(ctx, home)
	if err != nil || c.Leaving() {
		return f, false
	}
	return c.Runtime(), true
}

// subscription hands the events of a stream to a channel, for those who wait
// for something else too.
type subscription struct {
	stream *ipc.Stream
	events chan ipc.Event
	err    error // why the events ended; valid once the channel is closed
	stop   context.CancelFunc
	done   chan struct{}
}

func subscribe(ctx context.Context, c *ipc.Client, threadID string, afterSeq *uint64) (*subscription, error) {
	stream, err := c.Subscribe(ctx, threadID, afterSeq)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &subscription{stream: stream, events: make(chan ipc.Event), stop: stop, done: make(chan struct{})}
	go s.pump(ctx)
	return s, nil
}

func (s *subscription) pump(ctx context.Context) {
	defer close(s.done)
	defer close(s.events)
	for {
		ev, err := s.stream.Next(ctx)
		if err != nil {
			s.err = err
			return
		}
		select {
		case s.events <- ev:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
	}
}

// Close ends the subscription and waits for its goroutine.
func (s *subscription) Close() {
	s.stop()
	s.stream.Close()
	<-s.done
}
