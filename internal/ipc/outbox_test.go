package ipc

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowConn is a connection whose writes wait to be let through.
type slowConn struct {
	net.Conn
	begun   chan struct{} // a write has begun
	proceed chan error    // lets one write end

	mu     sync.Mutex
	writes []string
}

func newSlowConn() *slowConn {
	return &slowConn{begun: make(chan struct{}, 16), proceed: make(chan error, 16)}
}

func (c *slowConn) SetWriteDeadline(time.Time) error { return nil }

func (c *slowConn) Write(p []byte) (int, error) {
	c.begun <- struct{}{}
	if err := <-c.proceed; err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, string(p))
	return len(p), nil
}

func always() bool { return true }

func TestAnAnswerGoesBeforeEventsThatWaitedLonger(t *testing.T) {
	conn := newSlowConn()
	o := newOutbox(&lineSink{conn: conn, timeout: time.Second}, func(error) {})
	var tasks sync.WaitGroup
	tasks.Go(func() { _, _ = o.events([][]byte{[]byte("first\n")}, always) })
	<-conn.begun
	tasks.Go(func() { _, _ = o.events([][]byte{[]byte("event\n")}, always) })
	awaitWaiting(o, 1)
	tasks.Go(func() { _ = o.answer([]byte("answer\n"), nil) })
	awaitWaiting(o, 2)
	for range 3 {
		conn.proceed <- nil
	}
	tasks.Wait()
	if got := strings.Join(conn.writes, ""); got != "first\nanswer\nevent\n" {
		t.Errorf("written: %q", got)
	}
}

// awaitWaiting returns when so many writers wait for their turn.
func awaitWaiting(o *outbox, n int) {
	for {
		o.mu.Lock()
		waiting := o.waiting
		o.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

func TestAGroupIsOneWrite(t *testing.T) {
	conn := newSlowConn()
	o := newOutbox(&lineSink{conn: conn, timeout: time.Second}, func(error) {})
	conn.proceed <- nil
	written, err := o.events([][]byte{[]byte("a\n"), []byte("b\n"), []byte("c\n")}, always)
	if !written || err != nil || len(conn.writes) != 1 || conn.writes[0] != "a\nb\nc\n" {
		t.Errorf("%v, %v, %q", written, err, conn.writes)
	}
}

func TestEventsThatNobodyWantsAnyMoreAreNotWritten(t *testing.T) {
	o := newOutbox(&lineSink{conn: newSlowConn(), timeout: time.Second}, func(error) {})
	written, err := o.events([][]byte{[]byte("a\n")}, func() bool { return false })
	if written || err != nil {
		t.Errorf("%v, %v", written, err)
	}
}

func TestAfterAFailedWriteNothingIsWrittenAndItIsReportedOnce(t *testing.T) {
	conn := newSlowConn()
	reported := 0
	o := newOutbox(&lineSink{conn: conn, timeout: time.Second}, func(error) { reported++ })
	broken := errors.New("broken")
	conn.proceed <- broken
	if err := o.answer([]byte("a\n"), nil); !errors.Is(err, broken) {
		t.Errorf("answer: %v", err)
	}
	if err := o.answer([]byte("b\n"), nil); !errors.Is(err, broken) {
		t.Errorf("second answer: %v", err)
	}
	if written, err := o.events([][]byte{[]byte("c\n")}, always); written || !errors.Is(err, broken) {
		t.Errorf("events: %v, %v", written, err)
	}
	if reported != 1 || len(conn.writes) != 0 {
		t.Errorf("reported %d times, written %q", reported, conn.writes)
	}
}
