package provider

import (
	"testing"
	"time"
)

func TestBackOffGrowsAndForgets(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name     string
		failures []time.Duration // after begin
		asked    time.Duration
		want     time.Duration
	}{
		{"none", nil, 0, 0},
		{"the first is free", []time.Duration{0}, 0, 0},
		{"the second costs a second", []time.Duration{0, 1}, 1, time.Second},
		{"the third costs 5", []time.Duration{0, 1, 2}, 2, 5 * time.Second},
		{"the fourth costs 15", []time.Duration{0, 1, 2, 3}, 3, 15 * time.Second},
		{"the fifth costs 60", []time.Duration{0, 1, 2, 3, 4}, 4, 60 * time.Second},
		{"it never costs more", []time.Duration{0, 1, 2, 3, 4, 5, 6, 7}, 7, 60 * time.Second},
		{"time passes", []time.Duration{0, 0, 0}, 4 * time.Second, time.Second},
		{"time has passed", []time.Duration{0, 0, 0}, 5 * time.Second, 0},
		{"old failures do not count", []time.Duration{0, 1, 2, 3, 10 * time.Minute}, 10 * time.Minute, 15*time.Second + 0},
		{"only the last is recent", []time.Duration{0, 1, 2, 3, 11 * time.Minute}, 11 * time.Minute, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b backoff
			for _, at := range tt.failures {
				b.fail(begin.Add(at))
			}
			if got := b.wait(begin.Add(tt.asked), fullDelay); got != tt.want {
				t.Errorf("wait %v, want %v", got, tt.want)
			}
			b.reset()
			if got := b.wait(begin, fullDelay); got != 0 {
				t.Errorf("wait %v after reset", got)
			}
		})
	}
}

func TestBackOffIsShortened(t *testing.T) {
	const limit = 50 * time.Millisecond
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b backoff
	for i, want := range []time.Duration{0, limit, limit, limit, limit, limit} {
		b.fail(now)
		if got := b.wait(now, limit); got != want {
			t.Errorf("after %d failures: wait %v, want %v", i+1, got, want)
		}
	}
}
