package assets

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// exchange is one HTTP request and its answer.
type exchange struct {
	m       *Manager
	w       http.ResponseWriter
	r       *http.Request
	conn    *http.ResponseController
	reading bool // the body was asked for, so that the client sends it
}

// refusal is an error with another HTTP status than that of its code.
type refusal struct {
	status int
	fault  *fault.Error
}

func (r *refusal) Error() string { return r.fault.Error() }

// Unwrap returns the error without the status.
func (r *refusal) Unwrap() error { return r.fault }

// refuse answers with an error and reads what is left of the body.
func (e *exchange) refuse(err error) {
	f := fault.From(err)
	status := f.Code.Info().HTTP
	if r, ok := err.(*refusal); ok {
		status = r.status
	}
	// The answer goes out before the rest of the body is read: who looks at it
	// early can stop sending.
	_ = e.conn.EnableFullDuplex() // only HTTP/2 cannot, where it is not needed
	e.send(status, thread.EncodeError(f))
	e.drain()
}

// answer writes a JSON answer.
func (e *exchange) answer(status int, body any) {
	data, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		e.m.cfg.Log.Error().Err(err).Msg("An answer of the transfer server cannot be encoded.")
		status, data = http.StatusInternalServerError, thread.EncodeError(fault.From(err))
	}
	e.send(status, data)
}

// send writes an answer that is JSON.
func (e *exchange) send(status int, data []byte) {
	h := e.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_ = e.conn.SetWriteDeadline(time.Now().Add(e.m.cfg.IdleTimeout))
	e.w.WriteHeader(status)
	_, _ = e.w.Write(data) // a client that is gone needs no answer
	_ = e.conn.Flush()
}

// drain reads the rest of the body. A client that waits for a word before it
// sends the body (Expect) has its answer and sends none. A connection on which the
// rest is too long or too late is closed: what comes of it must not be taken for
// another request.
func (e *exchange) drain() {
	if !e.reading && strings.EqualFold(e.r.Header.Get("Expect"), "100-continue") {
		return
	}
	_ = e.conn.SetReadDeadline(time.Now().Add(e.m.cfg.DrainTimeout))
	if _, err := io.CopyN(io.Discard, e.r.Body, e.m.cfg.DrainBytes); err != io.EOF {
		panic(http.ErrAbortHandler)
	}
}
