package lifecycle

import (
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// catchUp is what is left of every timer that ran out while the process stood
// still: a page's answer, an agent's frame or a client that came back may wait in
// a socket to be read.
const catchUp = time.Second

// timers are a thread's timers. One that runs out puts an input into the
// mailbox; an input of a timer that was disarmed meanwhile is dropped here.
type timers struct {
	mail *mailbox
	d    Durations
	// beforeAutoEnd runs before the actor learns that its last client is gone
	// for good; it may take a moment.
	beforeAutoEnd func()

	mu    sync.Mutex
	armed map[thread.Timer]*time.Timer
}

func newTimers(mail *mailbox, d Durations) *timers {
	return &timers{mail: mail, d: d, armed: map[thread.Timer]*time.Timer{}}
}

func (t *timers) duration(which thread.Timer) time.Duration {
	switch which {
	case thread.TimerStart:
		return t.d.Start
	case thread.TimerSilence:
		return t.d.Silence
	case thread.TimerStop:
		return t.d.Stop
	case thread.TimerSession:
		return t.d.Session
	case thread.TimerAutoEnd:
		return t.d.AutoEnd
	}
	return 0
}

// arm starts a timer anew. wait 0 means the timer's own duration; where that is
// 0 too, the timer is switched off.
func (t *timers) arm(which thread.Timer, turn uint64, wait time.Duration) {
	if wait == 0 {
		wait = t.duration(which)
	}
	t.disarm(which)
	if wait == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	due := time.Now().Add(wait)
	var self *time.Timer
	self = time.AfterFunc(wait, func() {
		t.mu.Lock()
		current := t.armed[which] == self
		if current && fault.Overslept(due) {
			due = time.Now().Add(catchUp)
			self.Reset(catchUp)
			current = false
		} else if current {
			delete(t.armed, which)
		}
		t.mu.Unlock()
		if !current {
			return
		}
		if which == thread.TimerAutoEnd {
			t.beforeAutoEnd()
		}
		t.mail.put(thread.TimerFired{Timer: which, Turn: turn})
	})
	t.armed[which] = self
}

func (t *timers) disarm(which thread.Timer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.armed[which]; old != nil {
		old.Stop()
		delete(t.armed, which)
	}
}

func (t *timers) stopAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for which, timer := range t.armed {
		timer.Stop()
		delete(t.armed, which)
	}
}

func (t *timers) none() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.armed) == 0
}
