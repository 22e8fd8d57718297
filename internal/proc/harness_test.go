//go:build linux

package proc

import (
	"context"
	"errors"
	"maps"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// memoryLedger keeps entries in memory and fails on demand.
type memoryLedger struct {
	mu      sync.Mutex
	entries map[string][]byte
	puts    int
	failPut int // the how manieth Put fails; 0 = none
}

var errLedger = errors.New("ledger failed")

func (l *memoryLedger) Put(id string, value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.puts++; l.puts == l.failPut {
		return errLedger
	}
	if l.entries == nil {
		l.entries = map[string][]byte{}
	}
	l.entries[id] = value
	return nil
}

func (l *memoryLedger) Delete(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, id)
	return nil
}

func (l *memoryLedger) All() (map[string][]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.entries), nil
}

func (l *memoryLedger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// noExitPause keeps the race detector from delaying each child's exit by 1 s.
const noExitPause = "GORACE=atexit_sleep_ms=0"

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

type fixture struct {
	*Starter
	ledger *memoryLedger
}

// newFixture returns a Starter with a short ladder; it is closed at the end.
func newFixture(t testing.TB) *fixture {
	ledger := &memoryLedger{}
	s := New(ledger, "this-instance", zerolog.New(zerolog.NewTestWriter(t)))
	s.CloseWait, s.TermWait = 30*time.Millisecond, 60*time.Millisecond
	s.DrainWait, s.PoliteWait = 200*time.Millisecond, 100*time.Millisecond
	t.Cleanup(s.Close)
	return &fixture{s, ledger}
}

// runtimeUnderTest is a started child and what it printed.
type runtimeUnderTest struct {
	*Process
	frames chan string // the member "frame" of each frame; "" when it has none
	strays chan Stray
}

func (f *fixture) child(t testing.TB, knobs string) *runtimeUnderTest {
	t.Helper()
	r := &runtimeUnderTest{frames: make(chan string, 64), strays: make(chan Stray, 64)}
	p, err := f.Start(t.Context(), Spec{
		Provider: "fake",
		Path:     os.Args[0],
		Env:      []string{childEnv + "=" + knobs, noExitPause},
		OnFrame: func(_ *Process, frame []byte) {
			var body struct {
				Frame string `json:"frame"`
			}
			_ = json.Unmarshal(frame, &body)
			r.frames <- body.Frame
		},
		OnStray: func(_ *Process, s Stray) { r.strays <- s },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Process = p
	return r
}

func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func (r *runtimeUnderTest) pid(t testing.TB) int {
	t.Helper()
	pid, err := strconv.Atoi(receive(t, r.frames))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}

// awaitDead waits for a process that is no child of ours.
func awaitDead(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if n, err := unix.Poll(poll, int(time.Until(deadline).Milliseconds())); err == nil && n == 1 {
			return
		}
	}
	t.Fatalf("process %d is alive", pid)
}

func (f *fixture) mustBeEmpty(t testing.TB) {
	t.Helper()
	if n := f.ledger.size(); n != 0 {
		t.Errorf("ledger holds %d entries, want none", n)
	}
}

func background() context.Context { return context.Background() }
