package ipc

import (
	"io"
	"net"

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
