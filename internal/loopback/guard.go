package loopback

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// MaxHeaderBytes is the value for http.Server that makes it refuse a request
// whose header is over 16 KiB: the server reads 4 KiB more than it is told.
const MaxHeaderBytes = 16<<10 - 4<<10

// Class is a kind of route: all routes of a class admit the same callers.
type Class uint8

const (
	// Health is for /healthz, /readyz and /metrics, which tell no ids and no
	// paths and ask for no token, since a token of one run cannot be scraped
	// with. No page may read them.
	Health Class = iota + 1
	// Ticket is for the URLs of asset transfers. Pages of other sites call them
	// by design, so Sec-Fetch-Site is not looked at; whoever knows the ticket
	// then judges the Origin with CheckOwner.
	Ticket
	// Agent is for the tools that agents call. They prove themselves with a
	// secret, which is the handler's to check; no page may call them.
	Agent
	// Socket is for the WebSocket of the wire protocol. Pages of other sites
	// connect to it by design, each as the one origin that its browser states;
	// what an origin may do is the handler's to decide, as is the token of a
	// caller without one.
	Socket
	// Inspect is for the operator's own page, which the daemon serves itself: no
	// other page may call it, frame it or link to it. That the caller is the
	// operator is the handler's to check.
	Inspect
)

// rules holds for each class what remains to be checked once the Host is
// right. A class without a rule admits nobody.
var rules = map[Class]func(*http.Request) Verdict{
	Health:  refusePages,
	Ticket:  refuseManyOrigins,
	Agent:   refusePages,
	Socket:  refuseHidden,
	Inspect: refuseOthers,
}

// Verdict is the answer of a Guard. The zero value admits.
type Verdict struct {
	Status int    // HTTP status of the refusal; 0 = admitted
	Reason string // a sentence for the caller
}

// Admitted reports whether the request may go on.
func (v Verdict) Admitted() bool { return v.Status == 0 }

// Guard judges HTTP requests to the listener at a port.
type Guard struct{ Port int }

// Judge decides about a request to a route of a class: first its Host (421),
// then the rule of the class (403). That the header is small enough was the
// server's to see, with MaxHeaderBytes.
func (g Guard) Judge(r *http.Request, class Class) Verdict {
	if !CheckHost(r.Host, g.Port) {
		return Verdict{http.StatusMisdirectedRequest, "This is not the host that was asked for."}
	}
	rule, ok := rules[class]
	if !ok {
		return Verdict{http.StatusForbidden, "Nobody may call this."}
	}
	return rule(r)
}

// Protect lets only those requests through to a handler that the class admits.
func (g Guard) Protect(class Class, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := g.Judge(r, class); !v.Admitted() {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, v.Reason, v.Status)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// CheckHost reports whether a Host header names this listener. A page of a
// domain that resolves to 127.0.0.1 sends its own name here.
func CheckHost(host string, port int) bool {
	name, number, err := net.SplitHostPort(host)
	if err != nil || number != strconv.Itoa(port) {
		return false
	}
	return name == Host && strings.HasPrefix(host, Host) || strings.EqualFold(name, "localhost") && host[0] != '['
}

// refusePages turns away what a browser sends for a page. Typing the address
// into the browser is allowed.
func refusePages(r *http.Request) Verdict {
	if _, sent := r.Header["Origin"]; sent {
		return Verdict{http.StatusForbidden, "Web pages may not call this."}
	}
	return refuseOtherSites(r)
}

// refuseOtherSites turns away what a browser sends for a page of another origin.
func refuseOtherSites(r *http.Request) Verdict {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "none" && site != "same-origin" {
			return Verdict{http.StatusForbidden, "Other web pages may not call this."}
		}
	}
	return Verdict{}
}

// refuseOthers admits pages that were served under the very Host that they call.
// What is more than reading needs the Origin as a proof of that; browsers leave it
// out of what only reads.
func refuseOthers(r *http.Request) Verdict {
	sent, isPage := r.Header["Origin"]
	switch {
	case len(sent) > 1:
		return refuseManyOrigins(r)
	case isPage && !strings.EqualFold(sent[0], "http://"+r.Host):
		return Verdict{http.StatusForbidden, "Other web pages may not call this."}
	case !isPage && r.Method != http.MethodGet && r.Method != http.MethodHead:
		return Verdict{http.StatusForbidden, "This needs the origin of the page that calls it."}
	}
	return refuseOtherSites(r)
}

// refuseManyOrigins turns away what no browser sends and CheckOwner could not
// judge as a whole.
func refuseManyOrigins(r *http.Request) Verdict {
	if len(r.Header["Origin"]) > 1 {
		return Verdict{http.StatusForbidden, "A request has one origin at most."}
	}
	return Verdict{}
}

// refuseHidden turns away callers whose origin cannot be told: pages that hide
// it, several at once, and a browser's request that states none.
func refuseHidden(r *http.Request) Verdict {
	sent, isPage := r.Header["Origin"]
	if !isPage {
		return refusePages(r)
	}
	if len(sent) > 1 {
		return refuseManyOrigins(r)
	}
	if _, ok := NormalizeOrigin(sent[0]); !ok {
		return Verdict{http.StatusForbidden, "This needs an origin that can be told."}
	}
	return Verdict{}
}

// CheckOwner judges the Origin of a request about something that belongs to an
// origin, "" for nobody: another one's page is refused (403). A caller without
// an Origin is no page.
func CheckOwner(r *http.Request, owner string) Verdict {
	sent, isPage := r.Header["Origin"]
	if owner == "" || !isPage {
		return Verdict{}
	}
	if origin, ok := NormalizeOrigin(sent[0]); !ok || origin != owner {
		return Verdict{http.StatusForbidden, "This belongs to another origin."}
	}
	return Verdict{}
}
