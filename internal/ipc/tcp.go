package ipc

import (
	"io"
	"net"
	"time"

	"github.com/pedelec/pedelec-core/internal/loopback"
)

// admit decides whether a connection may speak at all: who is on the other end,
// and whether its first bytes are another protocol's. It returns what to read
// lines from. Nothing is parsed and nothing is written on a refused connection.
func (s *Server) admit(nc net.Conn) (io.Reader, error) {
	if err := s.peers.Check(nc); err != nil {
		s.metrics.refused.Inc()
		return nil, err
	}
	input, err := loopback.SniffPreface(nc)
	if err != nil {
		s.metrics.refused.Inc()
		return nil, err
	}
	return input, nil
}

// lineSink writes lines as they are.
type lineSink struct {
	conn    net.Conn
	timeout time.Duration // of one write
	batch   []byte        // lines gathered for one write
}

// write copies small lines together, since one system call with one buffer is
// cheaper than one with hundreds.
func (s *lineSink) write(lines [][]byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if len(lines) == 1 {
		_, err := s.conn.Write(lines[0])
		return err
	}
	s.batch = s.batch[:0]
	for _, line := range lines {
		if len(s.batch) > 0 && len(s.batch)+len(line) > 2*writeBatchBytes {
			if err := s.flush(); err != nil {
				return err
			}
		}
		s.batch = append(s.batch, line...)
	}
	return s.flush()
}

func (s *lineSink) flush() error {
	_, err := s.conn.Write(s.batch)
	s.batch = s.batch[:0]
	return err
}

// rest is called by the pump, between two writes of its own.
func (s *lineSink) rest() {
	if cap(s.batch) > keptBuffer {
		s.batch = nil
	}
}
