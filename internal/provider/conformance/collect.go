package conformance

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Patience is how long a test waits for what must come; reaching it is a failure.
const Patience = 20 * time.Second

// Collector is a sink that keeps everything.
type Collector struct {
	t      testing.TB
	mu     sync.Mutex
	frames []thread.Frame
	more   chan struct{} // room for one
}

// NewCollector returns an empty one.
func NewCollector(t testing.TB) *Collector { return &Collector{t: t, more: make(chan struct{}, 1)} }

// Frame keeps a frame.
func (c *Collector) Frame(f thread.Frame) {
	c.mu.Lock()
	c.frames = append(c.frames, f)
	c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// All returns what came so far.
func (c *Collector) All() []thread.Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

// Wait returns the frames once they satisfy a condition.
func (c *Collector) Wait(what string, holds func([]thread.Frame) bool) []thread.Frame {
	c.t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	for {
		frames := c.All()
		if holds(frames) {
			return frames
		}
		select {
		case <-c.more:
		case <-late.C:
			c.t.Fatalf("never: %s; got %s", what, Words(frames))
		}
	}
}

// Finished waits for a turn's terminal frame and returns the turn's frames but
// those that only show activity.
func (c *Collector) Finished(turn uint64) []thread.Frame {
	c.t.Helper()
	ofTurn := func(frames []thread.Frame) (own []thread.Frame) {
		for _, f := range frames {
			if f.Turn == turn && f.Kind != thread.FrameActivity {
				own = append(own, f)
			}
		}
		return own
	}
	return ofTurn(c.Wait("the end of the turn", func(frames []thread.Frame) bool {
		own := ofTurn(frames)
		return len(own) > 0 && own[len(own)-1].Kind == thread.FrameFinished
	}))
}

// Saw waits for a delta with this text.
func (c *Collector) Saw(text string) {
	c.t.Helper()
	c.Wait("the text "+text, func(frames []thread.Frame) bool {
		return slices.ContainsFunc(frames, func(f thread.Frame) bool { return f.Kind == thread.FrameDelta && f.Text == text })
	})
}

// Called waits for the n-th call of a frontend tool and returns it.
func (c *Collector) Called(n int) thread.ToolCall {
	c.t.Helper()
	calls := func(frames []thread.Frame) (all []thread.ToolCall) {
		for _, f := range frames {
			if f.Kind == thread.FrameToolCall {
				all = append(all, f.Call)
			}
		}
		return all
	}
	return calls(c.Wait("a tool call", func(frames []thread.Frame) bool { return len(calls(frames)) > n }))[n]
}

// Words writes frames down shortly: d:text, m:text, u:tokens, tool:name, ok,
// failed CODE, cancelled, gone CODE.
func Words(frames []thread.Frame) string {
	var all []string
	for _, f := range frames {
		switch f.Kind {
		case thread.FrameDelta:
			all = append(all, "d:"+f.Text)
		case thread.FrameMessage:
			all = append(all, "m:"+f.Text)
		case thread.FrameUsage:
			all = append(all, "u:"+strconv.FormatUint(f.Usage.Tokens, 10))
		case thread.FrameToolCall:
			all = append(all, "tool:"+f.Call.Name)
		case thread.FrameGone:
			all = append(all, "gone "+string(f.Err.Code))
		case thread.FrameFinished:
			switch f.Outcome {
			case thread.OutcomeSuccess:
				all = append(all, "ok")
			case thread.OutcomeCancelled:
				all = append(all, "cancelled")
			case thread.OutcomeFailed:
				all = append(all, "failed "+string(f.Err.Code))
			}
		}
	}
	return strings.Join(all, " | ")
}

// Told is Words without the figures of usage, of which each protocol has its own.
func Told(frames []thread.Frame) string {
	return Words(slices.DeleteFunc(slices.Clone(frames), func(f thread.Frame) bool { return f.Kind == thread.FrameUsage }))
}

// Total is what a thread counts of the usage that the frames tell.
func Total(frames []thread.Frame) uint64 {
	var total uint64
	for _, f := range frames {
		switch {
		case f.Kind != thread.FrameUsage:
		case f.Usage.Cumulative:
			total = max(total, f.Usage.Tokens)
		default:
			total += f.Usage.Tokens
		}
	}
	return total
}
