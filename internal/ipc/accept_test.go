package ipc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// scriptedListener fails to accept as it is told.
type scriptedListener struct {
	net.Listener
	fail   func() error
	closed chan struct{}
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: l.fail()}
}

func (l *scriptedListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// Every error of a listener is a net.Error, so that alone says nothing.
func TestAnAcceptErrorThatStaysEndsServing(t *testing.T) {
	broken := errors.New("invalid argument")
	l := &scriptedListener{fail: func() error { return broken }, closed: make(chan struct{})}
	s := &Server{base: context.Background(), listeners: map[net.Listener]struct{}{}}
	if err := s.ServeTCP(l); !errors.Is(err, broken) {
		t.Errorf("serve: %v, want %v", err, broken)
	}
	<-l.closed
}

func TestAnAcceptErrorThatPassesIsWaitedOutAndToldNowAndThen(t *testing.T) {
	for _, reason := range passing {
		t.Run(reason.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasts = time.Minute
				start, left := time.Now(), errors.New("gone for good")
				l := &scriptedListener{closed: make(chan struct{}), fail: func() error {
					if time.Since(start) > lasts {
						return left
					}
					return reason
				}}
				var lines bytes.Buffer
				s := &Server{base: context.Background(), listeners: map[net.Listener]struct{}{}, log: zerolog.New(&lines)}
				if err := s.ServeTCP(l); !errors.Is(err, left) {
					t.Errorf("serve: %v", err)
				}
				if n, want := strings.Count(lines.String(), "\n"), int(lasts/acceptReport)+1; n > want || n == 0 {
					t.Errorf("%d lines in %v, want %d at most", n, lasts, want)
				}
			})
		})
	}
}
