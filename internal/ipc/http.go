package ipc

import (
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
)

// HTTPHandler returns the routes of the HTTP listener:
//
//	GET /healthz   200 while the process serves
//	GET /readyz    200 when it can take work, else 503 with the reason
//	GET /metrics   Prometheus
//	GET /v1/ipc    the wire protocol over a WebSocket
//
// The first three ask for no token, tell no ids and no paths, and refuse web
// pages. A WebSocket is for pages of origins that the user approves, and for
// native clients with the token. Requests for another Host are refused.
func (s *Server) HTTPHandler() http.Handler {
	probes := http.NewServeMux()
	probes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "ok\n")
	})
	probes.HandleFunc("GET /readyz", s.serveReady)
	probes.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/", guarded(loopback.Health, probes))
	mux.Handle(SocketPath, guarded(loopback.Socket, http.HandlerFunc(s.serveSocket)))
	return mux
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.told.Load() {
		writeText(w, http.StatusServiceUnavailable, "The daemon is shutting down.\n")
		return
	}
	if err := s.notReady(); err != nil {
		writeText(w, http.StatusServiceUnavailable, whyNotReady(err))
		return
	}
	writeText(w, http.StatusOK, "ok\n")
}

// notReady asks why the daemon cannot take work, nil = it can. It logs what has
// changed since it was asked last: probes come every few seconds.
func (s *Server) notReady() (err error) {
	if s.ready != nil {
		err = s.ready()
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	if was := s.unready.Swap(&why); was != nil && *was == why || was == nil && err == nil {
		return err
	}
	if err != nil {
		s.log.Warn().Err(err).Msg("not ready")
	} else {
		s.log.Info().Msg("ready again")
	}
	return err
}

// whyNotReady is what strangers are told: the sentence of a code, never the error's
// own, which may name paths.
func whyNotReady(err error) string {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return string(coded.Code) + ": " + coded.Code.Info().Meaning + "\n"
	}
	return "Not ready; the log says why.\n"
}

// guarded applies the rules for HTTP callers of a class, with the port on which
// the request arrived.
func guarded(class loopback.Class, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if !ok {
			http.Error(w, "This is not served here.", http.StatusMisdirectedRequest)
			return
		}
		loopback.Guard{Port: local.Port}.Protect(class, next).ServeHTTP(w, r)
	})
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a caller that is gone needs no answer
}
