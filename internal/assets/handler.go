package assets

import (
	"net"
	"net/http"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
)

// Handler returns the routes /uploads/<id> and /downloads/<id>, for an
// http.Server whose listener is on loopback. It applies the rules for callers of
// ticket URLs itself, with the port on which the request arrived, and sets the
// deadlines of reads and writes anew for each; the server's own ReadTimeout would
// cut long uploads off.
func (m *Manager) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := &exchange{m: m, w: w, r: r, conn: http.NewResponseController(w)}
		e.serve()
	})
}

func (e *exchange) serve() {
	e.w.Header().Set("X-Content-Type-Options", "nosniff")
	e.w.Header().Set("Cache-Control", "no-store")
	if v := judge(e.r); !v.Admitted() {
		e.refuse(&refusal{v.Status, fault.New(fault.InvalidInput, v.Reason)})
		return
	}
	d, id, ok := splitTicketURL(e.r.URL.Path)
	owner := ""
	if ok {
		owner = e.m.owner(d, id)
	}
	allowOrigin(e.w.Header(), e.r, owner)
	if v := loopback.CheckOwner(e.r, owner); !v.Admitted() {
		e.refuse(&refusal{v.Status, fault.New(fault.ThreadAccessDenied, v.Reason)})
		return
	}
	if !ok {
		e.refuse(&refusal{http.StatusNotFound, fault.New(fault.InvalidInput, "Nothing is served under this path.")})
		return
	}
	e.route(d, id)
}

// methods of the ticket URLs.
var methods = [directions]string{upload: "PUT, OPTIONS", download: "GET, HEAD, OPTIONS"}

func (e *exchange) route(d direction, id string) {
	switch {
	case e.r.Method == http.MethodOptions:
		e.preflight(d)
	case e.r.Method == http.MethodPut && d == upload:
		e.serveUpload(id)
	case e.r.Method == http.MethodGet && d == download, e.r.Method == http.MethodHead && d == download:
		e.serveDownload(id)
	default:
		e.w.Header().Set("Allow", methods[d])
		e.refuse(&refusal{http.StatusMethodNotAllowed, fault.New(fault.InvalidInput, "This method is not served here.")})
	}
}

// preflight answers what browsers ask before a cross-origin request.
func (e *exchange) preflight(d direction) {
	h := e.w.Header()
	h.Set("Access-Control-Allow-Methods", methods[d])
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Range")
	h.Set("Access-Control-Max-Age", "300")
	if e.r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	e.w.WriteHeader(http.StatusNoContent)
}

// judge applies what holds for every ticket URL.
func judge(r *http.Request) loopback.Verdict {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return loopback.Verdict{Status: http.StatusMisdirectedRequest, Reason: "This is not served here."}
	}
	return loopback.Guard{Port: local.Port}.Judge(r, loopback.Ticket)
}

// splitTicketURL takes a path apart.
func splitTicketURL(path string) (d direction, id string, ok bool) {
	for d := range directions {
		if id, ok := strings.CutPrefix(path, kinds[d].urlPath); ok {
			return d, id, id != "" && !strings.Contains(id, "/")
		}
	}
	return 0, "", false
}

// allowOrigin lets the owner's pages read the answer, and for what nobody owns
// the page that asks. Errors carry it too, since without it a page sees a
// network error in their place.
func allowOrigin(h http.Header, r *http.Request, owner string) {
	h.Set("Vary", "Origin")
	if owner == "" {
		owner = r.Header.Get("Origin")
	}
	if owner != "" {
		h.Set("Access-Control-Allow-Origin", owner)
	}
}

// bearer returns the token of a request, "" for none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}
