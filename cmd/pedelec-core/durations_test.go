package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseDurations(t *testing.T) {
	for name := range durationNames {
		d, err := parseDurations(" " + name + "=250ms ;")
		if err != nil {
			t.Fatal(err)
		}
		got := time.Hour
		d.set(name, &got)
		if got != 250*time.Millisecond {
			t.Errorf("%s = %v, want 250ms", name, got)
		}
	}
	for _, bad := range []string{"no-such=1s", "=1s"} {
		if _, err := parseDurations(bad); err == nil || !strings.Contains(err.Error(), "there are") {
			t.Errorf("%q: error = %v; want one that lists the names", bad, err)
		}
	}
	for name := range durationNames {
		for _, bad := range []string{name, name + "=", name + "=-1s", name + "=fast"} {
			if _, err := parseDurations(bad); err == nil {
				t.Errorf("%q is taken", bad)
			}
		}
	}
}
