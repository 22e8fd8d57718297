package inspect

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// history is how many events at most a stream repeats that is asked for no
// particular ones: what fits a page that a person reads.
const history = 300

// eventsRead is how many events are read at once: as a rule the whole history, so
// that the first snapshot comes behind it.
const eventsRead = history

// stream tells one browser what happens in one thread.
type stream struct {
	inspector *Inspector
	threadID  string
	w         http.ResponseWriter
	control   *http.ResponseController

	after     uint64 // the last event that was sent
	sent      []byte // the last snapshot that was sent
	lastWrite time.Time
}

// serveEvents streams a thread until the browser leaves, its session ends, the
// thread is deleted, or the daemon ends:
//
//	event: snapshot   data: the snapshot, when it has changed
//	event: thread     data: an event of the journal; id: its number
//	event: gone       data: the error because of which there will be no more
//
// It begins behind the event that Last-Event-ID or the query "after" name, else
// with the last events that there are.
func (i *Inspector) serveEvents(w http.ResponseWriter, r *http.Request) {
	select {
	case i.streams <- struct{}{}:
		defer func() { <-i.streams }()
	default:
		refuse(w, http.StatusServiceUnavailable, fault.Newf(fault.CoreRuntimeUnavailable, "%d threads are being watched already; close another page.", MaxStreams))
		return
	}
	s := &stream{inspector: i, threadID: r.PathValue("id"), w: w, control: http.NewResponseController(w)}
	snapshot, err := i.config.Threads.Snapshot(r.Context(), operator, s.threadID)
	if err != nil {
		i.fail(w, err)
		return
	}
	if s.after, err = s.start(r, snapshot.LatestSeq); err != nil {
		i.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	// The last flush is the server's, and bounded too.
	defer func() { _ = s.control.SetWriteDeadline(time.Now().Add(i.config.WriteTimeout)) }()
	s.run(r)
}

// start returns the number behind which a stream begins.
func (s *stream) start(r *http.Request, latest uint64) (uint64, error) {
	word := r.Header.Get("Last-Event-ID")
	if word == "" {
		word = r.URL.Query().Get("after")
	}
	if word == "" {
		return latest - min(latest, history), nil
	}
	after, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0, fault.New(fault.InvalidInput, "after is the number of an event.")
	}
	return after, nil
}

// run looks at the thread until there is a reason to stop.
func (s *stream) run(r *http.Request) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.inspector.closing:
			return
		case <-next.C:
		}
		if !s.inspector.hasSession(r) {
			return
		}
		more, err := s.look(r.Context())
		if err != nil {
			return // the browser is gone, or was told why
		}
		if more {
			next.Reset(0)
		} else {
			next.Reset(s.inspector.config.Poll)
		}
	}
}

// look sends what is new and reports whether there is more.
func (s *stream) look(ctx context.Context) (more bool, err error) {
	snapshot, err := s.inspector.config.Threads.Snapshot(ctx, operator, s.threadID)
	if err != nil {
		return false, s.gone(err)
	}
	var out []byte
	if snapshot.LatestSeq > s.after {
		events, err := s.inspector.config.Threads.ReadEvents(ctx, operator, s.threadID, s.after, eventsRead)
		if err != nil {
			return false, s.gone(err)
		}
		out = s.appendEvents(out, events)
		s.after = max(s.after, events.NextSeq)
		more = s.after < snapshot.LatestSeq
	}
	if now := s.inspector.config.Encode.Snapshot(nil, &snapshot); string(now) != string(s.sent) {
		out = fmt.Appendf(out, "event: snapshot\ndata: %s\n\n", now)
		s.sent = now
	}
	if out == nil && time.Since(s.lastWrite) >= s.inspector.config.KeepAlive {
		out = []byte(": still here\n\n")
	}
	if out == nil {
		return more, nil
	}
	return more, s.write(out)
}

func (s *stream) appendEvents(out []byte, events thread.EventPage) []byte {
	for n := range events.Events {
		ev := &events.Events[n]
		out = fmt.Appendf(out, "id: %d\nevent: thread\ndata: ", ev.Seq)
		out = s.inspector.config.Encode.Event(out, s.threadID, ev)
		out = append(out, "\n\n"...)
	}
	return out
}

// gone tells the browser why there is nothing more.
func (s *stream) gone(err error) error {
	e := s.inspector.coded(err)
	_ = s.write(fmt.Appendf(nil, "event: gone\ndata: %s\n\n", thread.AppendError(nil, e, math.MaxInt)))
	return err
}

// write sends in time or not at all.
func (s *stream) write(b []byte) error {
	s.lastWrite = time.Now()
	if err := s.control.SetWriteDeadline(s.lastWrite.Add(s.inspector.config.WriteTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.control.Flush()
}
