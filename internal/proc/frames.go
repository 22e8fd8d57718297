package proc

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// DefaultFrameLimit is the longest line that is taken for a frame, in bytes
	// without its line feed. Lines over 1 MB were seen from real agents.
	DefaultFrameLimit = 16 << 20

	// StrayPart is how much of the beginning of a line that is no frame is kept, in
	// bytes, and of the end of one that is over the limit.
	StrayPart = 200

	frameBuffer     = 64 << 10 // the read buffer's size between large frames
	maxEmptyReads   = 100      // reads in a row without bytes or error, as in bufio
	shrinkThreshold = 1 << 20  // a buffer over this is given back once it is empty
)

// StrayKind says why a line is no frame.
type StrayKind uint8

const (
	NotObject StrayKind = iota + 1 // complete, but not a JSON object: a banner, half a frame
	Oversize                       // over the limit; it was skipped to its end
)

// String returns the kind as a word for logs.
func (k StrayKind) String() string {
	switch k {
	case NotObject:
		return "not_object"
	case Oversize:
		return "oversize"
	}
	return "unknown"
}

// A Stray is a line that is no frame.
type Stray struct {
	Kind  StrayKind
	Bytes int64  // its whole length, without the line feed
	Head  []byte // a copy of its first [StrayPart] bytes; may hold secrets
	Tail  []byte // of one that was over the limit: its last ones
}

// FrameCounts tells what a reader has met so far.
type FrameCounts struct {
	Frames      uint64 // JSON objects
	Stray       uint64 // lines that are no JSON objects
	Oversize    uint64 // lines over the limit
	InvalidUTF8 uint64 // lines in which bytes were replaced
}

// Frames splits a stream into frames: lines that each are one JSON object. It
// exists because one bad line must not end the stream: empty lines are ignored,
// others are reported and skipped.
//
// A frame's syntax is checked; duplicate names and unpaired surrogate escapes
// are let through, since agents print both. A reader of one goroutine.
type Frames struct {
	Limit   int         // longest frame in bytes; 0 means DefaultFrameLimit
	OnStray func(Stray) // called for each line that is no frame; nil: only counted
	Counts  FrameCounts

	r        io.Reader
	buf      []byte // buf[start:end] is read and not consumed
	start    int
	end      int
	searched int // so many bytes after start hold no line feed
	err      error
}

// NewFrames returns a reader of r's frames.
func NewFrames(r io.Reader) *Frames {
	return &Frames{r: r}
}

// Next returns the next frame, without its line feed and surrounding white
// space. The bytes are valid until the next call. At the end of the stream an
// unterminated line counts if it is a frame. The error is io.EOF or the
// stream's own.
func (f *Frames) Next() ([]byte, error) {
	for {
		line, err := f.line()
		if err != nil {
			return nil, err
		}
		if frame := f.check(line); frame != nil {
			return frame, nil
		}
	}
}

// line returns the next line within the limit, terminated or not.
func (f *Frames) line() ([]byte, error) {
	for {
		unread := f.buf[f.start:f.end]
		if i := bytes.IndexByte(unread[f.searched:], '\n'); i >= 0 && f.searched+i <= f.limit() {
			line := unread[:f.searched+i]
			f.consume(len(line) + 1)
			return line, nil
		}
		if f.searched = len(unread); f.searched > f.limit() {
			if err := f.skipLine(); err != nil {
				return nil, err
			}
			continue
		}
		if f.err == nil {
			f.fill()
			continue
		}
		if len(unread) == 0 {
			return nil, f.err
		}
		f.consume(len(unread))
		return unread, nil
	}
}

// check returns the frame that a line holds, or nil.
func (f *Frames) check(line []byte) []byte {
	frame := bytes.TrimSpace(line)
	if len(frame) == 0 {
		return nil
	}
	if !utf8.Valid(frame) {
		f.Counts.InvalidUTF8++
		frame = bytes.ToValidUTF8(frame, []byte(string(utf8.RuneError)))
	}
	if !isObject(frame) {
		f.Counts.Stray++
		f.report(Stray{Kind: NotObject, Bytes: int64(len(line)), Head: bytes.Clone(line[:min(len(line), StrayPart)])})
		return nil
	}
	f.Counts.Frames++
	return frame
}

func isObject(b []byte) bool {
	return b[0] == '{' && jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// skipLine drops the over-long line at the start of the buffer, to its end, in
// the memory that it has.
func (f *Frames) skipLine() error {
	head := bytes.Clone(f.buf[f.start:min(f.end, f.start+StrayPart)])
	var tail []byte
	var skipped int64
	for {
		unread := f.buf[f.start:f.end]
		i := bytes.IndexByte(unread, '\n')
		if i >= 0 || f.err != nil {
			rest := len(unread)
			if i >= 0 {
				rest = i
			}
			tail = lastOf(tail, unread[:rest])
			f.consume(min(rest+1, len(unread)))
			f.Counts.Oversize++
			f.report(Stray{Kind: Oversize, Bytes: skipped + int64(rest), Head: head, Tail: tail})
			return nil
		}
		tail = lastOf(tail, unread)
		skipped += int64(len(unread))
		f.start, f.end, f.searched = 0, 0, 0
		f.fill()
	}
}

// lastOf returns the last StrayPart bytes of what was kept and what follows it.
func lastOf(kept, next []byte) []byte {
	whole := append(kept, next[max(0, len(next)-StrayPart):]...)
	return whole[max(0, len(whole)-StrayPart):]
}

func (f *Frames) report(s Stray) {
	if f.OnStray != nil {
		f.OnStray(s)
	}
}

func (f *Frames) consume(n int) {
	f.start += n
	f.searched = 0
}

// fill reads once, making room first: by moving what is unread to the front,
// else by doubling.
func (f *Frames) fill() {
	unread := f.end - f.start
	switch {
	case unread == 0 && (f.buf == nil || len(f.buf) > shrinkThreshold):
		f.buf = make([]byte, frameBuffer)
		f.start, f.end = 0, 0
	case unread == 0:
		f.start, f.end = 0, 0
	case f.end == len(f.buf) && f.start > len(f.buf)/2:
		copy(f.buf, f.buf[f.start:f.end])
		f.start, f.end = 0, unread
	case f.end == len(f.buf):
		grown := make([]byte, min(2*len(f.buf), f.limit()+frameBuffer))
		copy(grown, f.buf[f.start:f.end])
		f.buf = grown
		f.start, f.end = 0, unread
	}
	for range maxEmptyReads {
		n, err := f.r.Read(f.buf[f.end:])
		f.end += n
		if err != nil {
			f.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	f.err = io.ErrNoProgress
}

func (f *Frames) limit() int {
	if f.Limit > 0 {
		return f.Limit
	}
	return DefaultFrameLimit
}
