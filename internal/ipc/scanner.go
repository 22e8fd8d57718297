package ipc

import (
	"bytes"
	"io"
)

const (
	// smallBuffer is what a connection starts with.
	smallBuffer = 4 << 10
	// keptBuffer is the largest buffer that a connection keeps while it is
	// quiet: a thousand of them may be open.
	keptBuffer = 16 << 10
	// maxBuffered is how much is received ahead of the request in hand: one
	// line of the largest size with its LF.
	maxBuffered = MaxLineBytes + 1
)

// lineScanner splits what it reads into lines. It holds at most [maxBuffered]
// bytes.
type lineScanner struct {
	buf      []byte // received, from start on
	start    int    // first byte that was not returned yet
	searched int    // bytes from start on that hold no LF
}

// next returns the next complete line without its LF, valid until fill.
func (s *lineScanner) next() (line []byte, ok bool) {
	rest := s.buf[s.start:]
	i := bytes.IndexByte(rest[s.searched:], '\n')
	if i < 0 {
		s.searched = len(rest)
		return nil, false
	}
	line = rest[:s.searched+i]
	s.start += len(line) + 1
	s.searched = 0
	return line, true
}

// rest returns what was received behind the last LF.
func (s *lineScanner) rest() []byte { return s.buf[s.start:] }

// fill reads once, at most room bytes, behind what is there.
func (s *lineScanner) fill(r io.Reader, room int) (n int, err error) {
	s.makeSpace(room)
	space := s.buf[len(s.buf):cap(s.buf)]
	n, err = r.Read(space[:min(len(space), room)])
	s.buf = s.buf[:len(s.buf)+n]
	return n, err
}

// makeSpace moves the rest to the front and sees that at least one byte can be
// read; the buffer grows by doubling, and goes when it is large and empty.
func (s *lineScanner) makeSpace(room int) {
	if s.start > 0 {
		kept := copy(s.buf, s.buf[s.start:])
		s.buf = s.buf[:kept]
		s.start = 0
	}
	if len(s.buf) == 0 && cap(s.buf) > keptBuffer {
		s.buf = nil
	}
	if len(s.buf) < cap(s.buf) {
		return
	}
	size := min(max(2*cap(s.buf), smallBuffer), len(s.buf)+room)
	grown := make([]byte, len(s.buf), size)
	copy(grown, s.buf)
	s.buf = grown
}
