package loopback

import (
	"net/http"
	"time"
)

// LimitBodies gives the body of each request so much time to arrive. The server of
// net/http reads what a handler leaves of a body before it answers, and would wait
// for it without end. A handler that reads bodies may set a limit of its own in
// place of this one; one that runs long after it must, since a limit that passes
// later looks like the peer's leaving.
func LimitBodies(h http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)) // a dead connection shows at the next read
		}
		h.ServeHTTP(w, r)
	})
}
