package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressLineSaysHowFarATransferIs(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		took        time.Duration
		want        string
	}{
		{0, 100, 0, "a.bin  [                        ]   0%  0 B of 100 B"},
		{50 << 20, 100 << 20, 10 * time.Second, "a.bin  [============            ]  50%  50.0 MiB of 100.0 MiB  5.0 MiB/s"},
		{100, 100, time.Second, "a.bin  [========================] 100%  100 B of 100 B  100 B/s"},
		{3 << 30, 2 << 30, time.Second, "a.bin  [========================] 100%  3.0 GiB of 2.0 GiB  3.0 GiB/s"},
		{2048, -1, time.Second, "a.bin  2.0 KiB  2.0 KiB/s"},
	} {
		if got := progressLine("a.bin", c.done, c.total, c.took); got != c.want {
			t.Errorf("%d of %d in %v:\n got %q\nwant %q", c.done, c.total, c.took, got, c.want)
		}
	}
}

func TestProgressBarIsDrawnNowAndThenAndGoesAway(t *testing.T) {
	var screen strings.Builder
	now := time.Unix(1000, 0)
	bar := &progressBar{from: strings.NewReader(strings.Repeat("x", 40)), to: &screen, name: "f", total: 40, began: now,
		now: func() time.Time { now = now.Add(barTick / 2); return now }}
	buf := make([]byte, 4)
	for {
		if _, err := bar.Read(buf); err == io.EOF {
			break
		}
	}
	if draws := strings.Count(screen.String(), "\r"); draws != 6 {
		t.Errorf("drawn %d times for 11 reads, want at the first and then at every second one", draws)
	}
	bar.clear()
	if end := screen.String()[strings.LastIndex(strings.TrimSuffix(screen.String(), "\r"), "\r"):]; strings.TrimSpace(end) != "" {
		t.Errorf("the line holds %q at the end", end)
	}
}

func TestOnAPipeThereIsNoBar(t *testing.T) {
	var errs strings.Builder
	a := &app{stderr: &errs}
	r, done := a.progressOf(strings.NewReader("hello"), "f", 5)
	if text, err := io.ReadAll(r); string(text) != "hello" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	done()
	if errs.Len() > 0 {
		t.Errorf("shown: %q", errs.String())
	}
}
