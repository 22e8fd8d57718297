package inspect

import (
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
)

//go:embed page
var page embed.FS

// policy lets the page load its own files and ask its own server. Nothing stands
// inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxCodeBody bounds what is read of an exchange: {"code":"…"} with room to spare.
const maxCodeBody = 1 << 10

// Handler serves everything at and below [Route]. Only the page itself is shown
// without a session:
//
//	GET  /inspect/                        the page, and its files below /inspect/page/
//	POST /inspect/session                 {"code"} → 204 with a cookie
//	GET  /inspect/threads                 {"threads": […], "next"?}; query status, after, limit
//	GET  /inspect/threads/<id>            the snapshot
//	GET  /inspect/threads/<id>/events     server-sent events; query after
//	GET  /inspect/runtimes                {"runtimes": […]}
//
// Errors are {"error": {"code", "message"}}.
func (i *Inspector) Handler() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the name is a constant of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /inspect/{$}", http.StripPrefix(Route, http.FileServerFS(files)))
	for _, name := range []string{"app.js", "style.css", "icon.svg"} {
		mux.HandleFunc("GET /inspect/page/"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, files, name)
		})
	}
	mux.HandleFunc("POST /inspect/session", i.serveSession)
	mux.HandleFunc("GET /inspect/threads", i.inSession(i.serveThreads))
	mux.HandleFunc("GET /inspect/threads/{id}", i.inSession(i.serveThread))
	mux.HandleFunc("GET /inspect/threads/{id}/events", i.inSession(i.serveEvents))
	mux.HandleFunc("GET /inspect/runtimes", i.inSession(i.serveRuntimes))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		loopback.Guard{Port: port(r)}.Protect(loopback.Inspect, mux).ServeHTTP(w, r)
	})
}

// port returns the port on which a request arrived; 0 matches no Host.
func port(r *http.Request) int {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return 0
	}
	return local.Port
}

// serveSession exchanges the code of a link for a cookie.
func (i *Inspector) serveSession(w http.ResponseWriter, r *http.Request) {
	if err := i.peer(r); err != nil {
		refuse(w, http.StatusForbidden, fault.New(fault.IPCUnauthorized, "This is another user's daemon."))
		return
	}
	var body struct {
		Code string `json:"code"`
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCodeBody))
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, fault.New(fault.InvalidInput, `The body is {"code": "…"}.`))
		return
	}
	if !i.codes.take(body.Code) {
		refuse(w, http.StatusUnauthorized, fault.New(fault.IPCUnauthorized, "This link was used, or its minute is over."))
		return
	}
	session, _ := i.sessions.issue()
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(port(r)), Value: session, Path: Route, MaxAge: int(SessionLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.WriteHeader(http.StatusNoContent)
}

// inSession lets only browsers through that have a session.
func (i *Inspector) inSession(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := i.peer(r); err != nil {
			refuse(w, http.StatusForbidden, fault.New(fault.IPCUnauthorized, "This is another user's daemon."))
			return
		}
		if !i.hasSession(r) {
			refuse(w, http.StatusUnauthorized, fault.New(fault.IPCUnauthorized, "This needs a fresh link: run pedelec-core inspect."))
			return
		}
		next(w, r)
	}
}

func (i *Inspector) hasSession(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(port(r)))
	return err == nil && i.sessions.has(cookie.Value)
}

func (i *Inspector) serveThreads(w http.ResponseWriter, r *http.Request) {
	query, err := listQuery(r)
	if err != nil {
		i.fail(w, err)
		return
	}
	found, err := i.config.Threads.List(r.Context(), operator, query)
	if err != nil {
		i.fail(w, err)
		return
	}
	body := []byte(`{"threads":[`)
	for n := range found.Threads {
		if n > 0 {
			body = append(body, ',')
		}
		body = i.config.Encode.Summary(body, &found.Threads[n])
	}
	body = append(body, ']')
	if found.Next != "" {
		body = append(body, `,"next":`...)
		body = append(body, quote(found.Next)...)
	}
	answer(w, append(body, '}'))
}

// listQuery reads what a list is asked for.
func listQuery(r *http.Request) (thread.ListQuery, error) {
	form := r.URL.Query()
	query := thread.ListQuery{After: form.Get("after")}
	if word := form.Get("status"); word != "" {
		status, ok := thread.ParseStatus(word)
		if !ok {
			return query, fault.New(fault.InvalidInput, "There is no such status.")
		}
		query.Status = status
	}
	if word := form.Get("limit"); word != "" {
		limit, err := strconv.Atoi(word)
		if err != nil || limit < 1 || limit > thread.MaxListLimit {
			return query, fault.Newf(fault.InvalidInput, "limit is a number from 1 to %d.", thread.MaxListLimit)
		}
		query.Limit = limit
	}
	return query, nil
}

func (i *Inspector) serveThread(w http.ResponseWriter, r *http.Request) {
	snapshot, err := i.config.Threads.Snapshot(r.Context(), operator, r.PathValue("id"))
	if err != nil {
		i.fail(w, err)
		return
	}
	answer(w, i.config.Encode.Snapshot(nil, &snapshot))
}

func (i *Inspector) serveRuntimes(w http.ResponseWriter, _ *http.Request) {
	body := []byte(`{"runtimes":[`)
	for n, runtime := range i.config.Runtimes.Runtimes() {
		if n > 0 {
			body = append(body, ',')
		}
		body = i.config.Encode.Runtime(body, &runtime)
	}
	answer(w, append(body, "]}"...))
}

func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a browser that is gone needs no answer
}

// fail answers with an error of the daemon.
func (i *Inspector) fail(w http.ResponseWriter, err error) {
	e := i.coded(err)
	refuse(w, e.Code.Info().HTTP, e)
}

// coded returns what the browser is told of an error, no details. What is our own fault is
// logged, since the browser only learns that it was.
func (i *Inspector) coded(err error) *fault.Error {
	e := fault.From(err)
	if e.Code == fault.Internal && !errors.Is(err, context.Canceled) { // a browser that left has no fault to report
		i.config.Log.Error().Err(err).Msg("the inspector cannot be answered for a reason of our own")
	}
	return fault.New(e.Code, e.Message())
}

func refuse(w http.ResponseWriter, status int, e *fault.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(thread.EncodeError(e))
}

// quote returns a text as a JSON string.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // it is no UTF-8
		return `""`
	}
	return string(b)
}
