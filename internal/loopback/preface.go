package loopback

import (
	"errors"
	"io"
)

// ErrForeignPreface means that a connection began as another protocol does. It
// is to be closed without an answer.
var ErrForeignPreface = errors.New("the connection does not begin as ours do")

const (
	// maxPreface is how much is read to tell HTTP: longer than any method that
	// a page can send without asking first.
	maxPreface = 16

	tlsHandshake   = 0x16 // first byte of a TLS hello
	firstHarmless  = 0x09 // TAB; control bytes below it begin no line of text
	afterTheMethod = ' '
)

// SniffPreface reads just enough of a connection to tell whether it begins as
// HTTP, TLS or another binary protocol, and returns [ErrForeignPreface] if so:
// a web page can send any bytes to a port, behind an HTTP header. Otherwise it
// returns a reader of everything, including what it read; at the end of the
// stream that reader says so. It waits for the first byte, and goes on reading
// only while the bytes could be an HTTP method. Other errors are the
// connection's. Deadlines are the caller's.
func SniffPreface(r io.Reader) (io.Reader, error) {
	p := &prefaced{r: r}
	for {
		switch p.judge() {
		case foreign:
			return nil, ErrForeignPreface
		case ours:
			return p, nil
		case undecided:
		}
		n, err := r.Read(p.buf[p.end:])
		p.end += n
		if err != nil && n > 0 {
			p.err = err
			err = nil
		}
		if errors.Is(err, io.EOF) {
			p.err = err
			return p, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

type opinion uint8

const (
	undecided opinion = iota
	ours
	foreign
)

// prefaced is a stream whose first bytes were read already.
type prefaced struct {
	r          io.Reader
	err        error // met while sniffing; comes after the bytes
	buf        [maxPreface]byte
	start, end int
}

// judge says what the bytes so far look like.
func (p *prefaced) judge() opinion {
	seen := p.buf[:p.end]
	if len(seen) > 0 && (seen[0] == tlsHandshake || seen[0] < firstHarmless) {
		return foreign
	}
	for i, b := range seen {
		if b >= 'A' && b <= 'Z' {
			continue
		}
		if b == afterTheMethod && i > 0 {
			return foreign
		}
		return ours
	}
	if len(seen) == maxPreface || p.err != nil {
		return ours
	}
	return undecided
}

// Read returns the bytes that were read before, then the stream.
func (p *prefaced) Read(b []byte) (int, error) {
	if p.start < p.end {
		n := copy(b, p.buf[p.start:p.end])
		p.start += n
		return n, nil
	}
	if p.err != nil {
		return 0, p.err
	}
	return p.r.Read(b)
}
