package ipc

import (
	"context"
	"errors"
	"testing"
)

func TestALaneLetsTheNextBeginOnceTheOneBeforeHas(t *testing.T) {
	var l lanes
	a, b, other := l.enter("t1"), l.enter("t1"), l.enter("t2")
	if err := a.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.wait(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("it began before the one before: %v", err)
	}
	a.begin()
	a.begin()
	if err := b.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := l.enter("t1")
	b.leave() // without having begun
	if err := c.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*place{a, c, other} {
		p.leave()
	}
	if len(l.last) != 0 {
		t.Errorf("%d lanes are left", len(l.last))
	}
}
