package ipc

import (
	"bufio"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pedelec/pedelec-core/internal/loopback"
)

// SocketPath is the path of the WebSocket.
const SocketPath = "/v1/ipc"

// Subprotocol is what a client may offer in the handshake.
const Subprotocol = "pedelec.v1"

// socketBuffer is how much of a WebSocket is read or written at once; larger
// messages pass in pieces.
const socketBuffer = 4 << 10

// serveSocket upgrades a request that the rules for Host and Origin have let
// through, and serves the WebSocket until it ends.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	from, ok := s.prove(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeText(w, http.StatusUnauthorized, "A client that is no web page shows the daemon's token.\n")
		return
	}
	if !s.reserveSocket(from.origin) {
		s.metrics.refused.Inc()
		writeText(w, http.StatusServiceUnavailable, "There are too many connections, or the daemon is leaving.\n")
		return
	}
	defer s.releaseSocket(from.origin)
	hijacker := &hijacker{ResponseWriter: w, peers: s.peers, timeout: s.config.WriteTimeout}
	upgrader := websocket.Upgrader{
		ReadBufferSize:  socketBuffer,
		WriteBufferSize: socketBuffer,
		Subprotocols:    []string{Subprotocol},
		CheckOrigin:     func(*http.Request) bool { return true }, // the guard has
		Error: func(_ http.ResponseWriter, _ *http.Request, status int, _ error) {
			if hijacker.gather == nil {
				w.Header().Set("Sec-WebSocket-Version", "13")
				writeText(w, status, "This is a WebSocket.\n")
			}
		},
	}
	ws, err := upgrader.Upgrade(hijacker, r, nil)
	if err != nil {
		s.metrics.refused.Inc()
		s.log.Debug().Err(err).Msg("a WebSocket was refused")
		return
	}
	c := s.newSocket(ws, hijacker.gather.Conn, hijacker.gather, from)
	s.keepSocket(c)
	c.serve()
	s.dropSocket(c)
}

// prove tells who asks for a WebSocket. A page is who its browser says that it
// is; everybody else shows the token.
func (s *Server) prove(r *http.Request) (p proof, ok bool) {
	if sent, isPage := r.Header["Origin"]; isPage {
		p.origin, ok = loopback.NormalizeOrigin(sent[0])
		return p, ok
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	p.token = strings.EqualFold(scheme, "Bearer") && loopback.TokenEqual(strings.TrimSpace(token), s.token)
	return p, p.token
}

// hijacker takes the connection from the HTTP server: only from our own user,
// and in a way that lets frames be gathered.
type hijacker struct {
	http.ResponseWriter
	peers   loopback.PeerCheck
	timeout time.Duration // of one write
	gather  *gatherer     // nil until then
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.gather = &gatherer{Conn: nc, timeout: h.timeout}
	if err := h.peers.Check(nc); err != nil {
		_ = nc.Close() // nothing was promised on it
		return nil, nil, err
	}
	return h.gather, rw, nil
}

// sockets are the WebSockets of a server, guarded by Server.mu.
type sockets struct {
	open     map[*socket]struct{}
	reserved int            // open ones, and those in their handshake
	byOrigin map[string]int // of these, those of pages

	// admitting is held, before Server.mu, from the counting of strangers until one
	// more has its place: many at once must not all see the last place free.
	admitting sync.Mutex
}

// reserveSocket makes room for a WebSocket, of a page of an origin or of none,
// if there is any.
func (s *Server) reserveSocket(origin string) bool {
	if origin != "" && !s.origins.approved(origin) {
		s.sockets.admitting.Lock()
		defer s.sockets.admitting.Unlock()
		if s.strangers() >= MaxStrangerSockets {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.Load() || s.sockets.reserved >= s.config.MaxSockets {
		return false
	}
	if origin != "" && s.sockets.byOrigin[origin] >= MaxSocketsOfOrigin {
		return false
	}
	s.sockets.reserved++
	if origin != "" {
		s.sockets.byOrigin[origin]++
	}
	s.tasks.Add(1)
	return true
}

// strangers counts the WebSockets of origins that are not approved, so that
// these cannot take the place of all others.
func (s *Server) strangers() int {
	s.mu.Lock()
	byOrigin := maps.Clone(s.sockets.byOrigin)
	s.mu.Unlock()
	count := 0
	for origin, n := range byOrigin {
		if !s.origins.approved(origin) {
			count += n
		}
	}
	return count
}

func (s *Server) releaseSocket(origin string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tasks.Done()
	s.sockets.reserved--
	if origin == "" {
		return
	}
	if s.sockets.byOrigin[origin]--; s.sockets.byOrigin[origin] == 0 {
		delete(s.sockets.byOrigin, origin)
	}
}

// keepSocket makes a WebSocket known to shutdowns and revocations.
func (s *Server) keepSocket(c *socket) {
	s.mu.Lock()
	s.sockets.open[c] = struct{}{}
	leaving := s.leaving.Load()
	s.mu.Unlock()
	s.metrics.sockets.Inc()
	if leaving {
		c.stop(finishLines)
	}
}

func (s *Server) dropSocket(c *socket) {
	s.metrics.sockets.Dec()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets.open, c)
}

// socketsByOrigin counts the WebSockets of each origin.
func (s *Server) socketsByOrigin() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for c := range s.sockets.open {
		if c.from.origin != "" {
			counts[c.from.origin]++
		}
	}
	return counts
}

// cutOrigin closes all WebSockets of an origin at once.
func (s *Server) cutOrigin(origin string) {
	s.mu.Lock()
	var cut []*socket
	for c := range s.sockets.open {
		if c.from.origin == origin {
			cut = append(cut, c)
		}
	}
	s.mu.Unlock()
	for _, c := range cut {
		c.leave(closeNow, farewellRevoked)
	}
}
