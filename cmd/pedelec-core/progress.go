package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// How a progress bar looks and how often it moves.
const (
	barWidth = 24
	barTick  = 100 * time.Millisecond
)

// progressOf shows on a terminal how much of a stream has gone by; on a pipe it
// shows nothing. total may be -1 if it is unknown.
func (a *app) progressOf(r io.Reader, name string, total int64) (io.Reader, func()) {
	if !isTerminal(a.stderr) {
		return unwatched(r, name, total)
	}
	bar := &progressBar{from: r, to: a.stderr, name: name, total: total, began: time.Now(), now: time.Now}
	return bar, bar.clear
}

// progressBar draws itself as its stream is read.
type progressBar struct {
	from  io.Reader
	to    io.Writer
	name  string
	total int64
	began time.Time
	now   func() time.Time

	done  int64
	drawn time.Time
	width int // of what stands on the line
}

// Read reads from the stream.
func (b *progressBar) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.done += int64(n)
	if now := b.now(); now.Sub(b.drawn) >= barTick {
		b.draw(now)
	}
	return n, err
}

func (b *progressBar) draw(now time.Time) {
	b.drawn = now
	line := progressLine(b.name, b.done, b.total, now.Sub(b.began))
	width := len([]rune(line))
	fmt.Fprintf(b.to, "\r%s%s", line, strings.Repeat(" ", max(0, b.width-width)))
	b.width = width
}

// clear takes the bar off the line.
func (b *progressBar) clear() {
	if b.width > 0 {
		fmt.Fprintf(b.to, "\r%s\r", strings.Repeat(" ", b.width))
	}
}

// progressLine says how far a transfer is.
func progressLine(name string, done, total int64, took time.Duration) string {
	speed := ""
	if took > 0 && done > 0 {
		speed = fmt.Sprintf("  %s/s", byteCount(int64(float64(done)/took.Seconds())))
	}
	if total <= 0 {
		return fmt.Sprintf("%s  %s%s", name, byteCount(done), speed)
	}
	part := min(float64(done)/float64(total), 1)
	full := int(part * barWidth)
	return fmt.Sprintf("%s  [%s%s] %3.0f%%  %s of %s%s", name, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full),
		100*part, byteCount(done), byteCount(total), speed)
}

// byteCount writes a size for people.
func byteCount(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
