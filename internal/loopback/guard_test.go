package loopback

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func TestGuard(t *testing.T) {
	const port = 4711
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	const admitted = 0
	tests := []struct {
		name   string
		host   string
		class  Class
		header http.Header
		want   int
	}{
		{"address", "127.0.0.1:4711", Health, nil, admitted},
		{"name", "localhost:4711", Health, nil, admitted},
		{"name in capitals", "LocalHost:4711", Health, nil, admitted},
		{"other port", "127.0.0.1:4712", Health, nil, 421},
		{"port with zeros", "127.0.0.1:04711", Health, nil, 421},
		{"no port", "127.0.0.1", Health, nil, 421},
		{"no host", "", Health, nil, 421},
		{"only a port", ":4711", Health, nil, 421},
		{"a domain that resolves to us", "rebound.example:4711", Health, nil, 421},
		{"a domain that begins as ours", "localhost.example:4711", Health, nil, 421},
		{"root dot", "localhost.:4711", Health, nil, 421},
		{"IPv6", "[::1]:4711", Health, nil, 421},
		{"address in brackets", "[127.0.0.1]:4711", Health, nil, 421},
		{"name in brackets", "[localhost]:4711", Health, nil, 421},
		{"other loopback address", "127.0.0.2:4711", Health, nil, 421},
		{"host is judged before anything else", "rebound.example:4711", Health, header("Origin", "https://a.example"), 421},
		{"a page", "127.0.0.1:4711", Health, header("Origin", "https://a.example"), 403},
		{"a page of our own address", "127.0.0.1:4711", Health, header("Origin", "http://127.0.0.1:4711"), 403},
		{"an origin that hides", "127.0.0.1:4711", Health, header("Origin", "null"), 403},
		{"an empty origin", "127.0.0.1:4711", Health, header("Origin", ""), 403},
		{"typed into the browser", "127.0.0.1:4711", Health, header("Sec-Fetch-Site", "none"), admitted},
		{"from our own page", "127.0.0.1:4711", Health, header("Sec-Fetch-Site", "same-origin"), admitted},
		{"from another site", "127.0.0.1:4711", Health, header("Sec-Fetch-Site", "cross-site"), 403},
		{"from the same site", "127.0.0.1:4711", Health, header("Sec-Fetch-Site", "same-site"), 403},
		{"an empty site", "127.0.0.1:4711", Health, header("Sec-Fetch-Site", ""), 403},
		{"two sites", "127.0.0.1:4711", Health, header("Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"), 403},
		{"a ticket without an origin", "127.0.0.1:4711", Ticket, nil, admitted},
		{"a ticket from any page", "localhost:4711", Ticket, header("Origin", "https://a.example", "Sec-Fetch-Site", "cross-site"), admitted},
		{"a ticket from an origin that hides", "127.0.0.1:4711", Ticket, header("Origin", "null"), admitted},
		{"a ticket from two origins", "127.0.0.1:4711", Ticket, header("Origin", "https://a.example", "Origin", "https://b.example"), 403},
		{"a ticket of another host", "evil.example:4711", Ticket, nil, 421},
		{"a ticket of another port", "127.0.0.1:80", Ticket, nil, 421},
		{"an agent", "127.0.0.1:4711", Agent, header("Authorization", "Bearer x"), admitted},
		{"an agent by name", "localhost:4711", Agent, nil, admitted},
		{"an agent with an origin", "127.0.0.1:4711", Agent, header("Origin", "https://a.example"), 403},
		{"an agent with our own origin", "127.0.0.1:4711", Agent, header("Origin", "http://127.0.0.1:4711"), 403},
		{"an agent with an origin that hides", "127.0.0.1:4711", Agent, header("Origin", "null"), 403},
		{"an agent with an empty origin", "127.0.0.1:4711", Agent, header("Origin", ""), 403},
		{"an agent in a browser", "127.0.0.1:4711", Agent, header("Sec-Fetch-Site", "cross-site"), 403},
		{"an agent at another host", "rebound.example:4711", Agent, nil, 421},
		{"an agent at another port", "127.0.0.1:4712", Agent, nil, 421},
		{"a native client's socket", "127.0.0.1:4711", Socket, nil, admitted},
		{"a native client's socket by name", "localhost:4711", Socket, header("Authorization", "Bearer x"), admitted},
		{"a page's socket", "127.0.0.1:4711", Socket, header("Origin", "https://a.example"), admitted},
		{"a page's socket across sites", "127.0.0.1:4711", Socket, header("Origin", "https://a.example", "Sec-Fetch-Site", "cross-site"), admitted},
		{"a socket of our own page", "127.0.0.1:4711", Socket, header("Origin", "http://127.0.0.1:4711"), admitted},
		{"an extension's socket", "127.0.0.1:4711", Socket, header("Origin", "chrome-extension://abcdefghijklmnopabcdefghijklmnop"), admitted},
		{"a socket of an origin that hides", "127.0.0.1:4711", Socket, header("Origin", "null"), 403},
		{"a socket of an empty origin", "127.0.0.1:4711", Socket, header("Origin", ""), 403},
		{"a socket of a file", "127.0.0.1:4711", Socket, header("Origin", "file://"), 403},
		{"a socket of an origin with a path", "127.0.0.1:4711", Socket, header("Origin", "https://a.example/x"), 403},
		{"a socket of two origins", "127.0.0.1:4711", Socket, header("Origin", "https://a.example", "Origin", "https://a.example"), 403},
		{"a browser's socket without an origin", "127.0.0.1:4711", Socket, header("Sec-Fetch-Site", "cross-site"), 403},
		{"a socket of another host", "rebound.example:4711", Socket, header("Origin", "http://rebound.example:4711"), 421},
		{"the inspector", "127.0.0.1:4711", Inspect, header("Sec-Fetch-Site", "none"), admitted},
		{"the inspector by name", "localhost:4711", Inspect, nil, admitted},
		{"the inspector's own page", "127.0.0.1:4711", Inspect, header("Origin", "http://127.0.0.1:4711", "Sec-Fetch-Site", "same-origin"), admitted},
		{"the inspector's own page by name", "LocalHost:4711", Inspect, header("Origin", "http://localhost:4711"), admitted},
		{"the inspector by its other name", "127.0.0.1:4711", Inspect, header("Origin", "http://localhost:4711"), 403},
		{"the inspector from another port", "127.0.0.1:4711", Inspect, header("Origin", "http://127.0.0.1:4712"), 403},
		{"the inspector over TLS", "127.0.0.1:4711", Inspect, header("Origin", "https://127.0.0.1:4711"), 403},
		{"the inspector from a page", "127.0.0.1:4711", Inspect, header("Origin", "https://a.example"), 403},
		{"the inspector from an origin that hides", "127.0.0.1:4711", Inspect, header("Origin", "null"), 403},
		{"the inspector from two origins", "127.0.0.1:4711", Inspect, header("Origin", "http://127.0.0.1:4711", "Origin", "http://127.0.0.1:4711"), 403},
		{"the inspector by a link of another site", "127.0.0.1:4711", Inspect, header("Sec-Fetch-Site", "cross-site"), 403},
		{"the inspector from another port of this machine", "127.0.0.1:4711", Inspect, header("Sec-Fetch-Site", "same-site"), 403},
		{"the inspector's page with a site that lies", "127.0.0.1:4711", Inspect, header("Origin", "http://127.0.0.1:4711", "Sec-Fetch-Site", "cross-site"), 403},
		{"the inspector at another host", "rebound.example:4711", Inspect, header("Origin", "http://rebound.example:4711"), 421},
		{"a class without a rule", "127.0.0.1:4711", Class(200), nil, 403},
		{"no class", "127.0.0.1:4711", Class(0), nil, 403},
	}
	guard := Guard{Port: port}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
			r.Host, r.Header = tt.host, tt.header
			verdict := guard.Judge(r, tt.class)
			if verdict.Status != tt.want {
				t.Errorf("status %d, want %d", verdict.Status, tt.want)
			}
			if verdict.Admitted() != (verdict.Reason == "") {
				t.Errorf("reason %q with status %d", verdict.Reason, verdict.Status)
			}
			served := httptest.NewRecorder()
			guard.Protect(tt.class, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
			})).ServeHTTP(served, r)
			want := tt.want
			if want == admitted {
				want = http.StatusNoContent
			}
			if served.Code != want {
				t.Errorf("served %d, want %d", served.Code, want)
			}
			if served.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("a page may read this")
			}
		})
	}
}

// TestTheHostIsJudgedWhateverTheOriginAndTheClass crosses hosts with origins for
// every class: a wrong host is 421 before anything else is looked at, a right one
// leaves the answer to the class.
func TestTheHostIsJudgedWhateverTheOriginAndTheClass(t *testing.T) {
	const admitted = 0
	right := []string{"127.0.0.1:4711", "localhost:4711", "LOCALHOST:4711"}
	wrong := []string{"", "127.0.0.1", "127.0.0.1:80", "[::1]:4711", "rebound.example:4711", "localhost.rebound.example:4711", "0.0.0.0:4711"}
	origins := []struct {
		origin string // "-" = none
		want   map[Class]int
	}{
		{"-", map[Class]int{Health: admitted, Ticket: admitted, Agent: admitted, Socket: admitted, Inspect: admitted}},
		{"https://a.example", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: admitted, Inspect: 403}},
		{"HTTPS://A.example:443", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: admitted, Inspect: 403}},
		{"http://127.0.0.1:4711", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: admitted}},
		{"http://rebound.example:4711", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: admitted, Inspect: 403}},
		{"null", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: 403, Inspect: 403}},
		{"", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: 403, Inspect: 403}},
		{"file://", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: 403, Inspect: 403}},
		{"https://user@a.example", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: 403, Inspect: 403}},
		{"https://a.example/path", map[Class]int{Health: 403, Ticket: admitted, Agent: 403, Socket: 403, Inspect: 403}},
	}
	judge := func(host, origin string, class Class) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if origin != "-" {
			r.Header["Origin"] = []string{origin}
		}
		return Guard{Port: 4711}.Judge(r, class).Status
	}
	for _, o := range origins {
		for class, want := range o.want {
			for _, host := range right {
				if got := judge(host, o.origin, class); got != want {
					t.Errorf("host %q, origin %q, class %d: %d, want %d", host, o.origin, class, got, want)
				}
			}
			for _, host := range wrong {
				if got := judge(host, o.origin, class); got != http.StatusMisdirectedRequest {
					t.Errorf("host %q, origin %q, class %d: %d, want 421", host, o.origin, class, got)
				}
			}
		}
	}
}

// What is more than reading proves where it comes from.
func TestAnInspectorThatPostsShowsItsOrigin(t *testing.T) {
	for origin, want := range map[string]int{"": 403, "http://127.0.0.1:4711": 0, "http://127.0.0.1:80": 403, "null": 403} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			r := httptest.NewRequest(method, "/inspect/session", nil)
			r.Host = "127.0.0.1:4711"
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
			if got := (Guard{Port: 4711}).Judge(r, Inspect).Status; got != want {
				t.Errorf("%s from %q: %d, want %d", method, origin, got, want)
			}
		}
	}
}

func TestCheckOwner(t *testing.T) {
	const owner = "https://app.example"
	tests := []struct {
		name   string
		owner  string
		origin []string
		want   int
	}{
		{"the owner", owner, []string{owner}, 0},
		{"the owner in another spelling", owner, []string{"https://APP.example:443"}, 0},
		{"no page", owner, nil, 0},
		{"nobody owns it", "", []string{"https://other.example"}, 0},
		{"nobody owns it and the page hides", "", []string{"null"}, 0},
		{"another origin", owner, []string{"https://other.example"}, 403},
		{"another port", owner, []string{"https://app.example:8443"}, 403},
		{"another scheme", owner, []string{"http://app.example"}, 403},
		{"an origin that hides", owner, []string{"null"}, 403},
		{"an empty origin", owner, []string{""}, 403},
		{"a longer name", owner, []string{"https://app.example.evil.example"}, 403},
		{"an extension that owns it", "chrome-extension://abcdefghijklmnopabcdefghijklmnop", []string{"chrome-extension://abcdefghijklmnopabcdefghijklmnop"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPut, "/uploads/upl_1", nil)
			if tt.origin != nil {
				r.Header["Origin"] = tt.origin
			}
			verdict := CheckOwner(r, tt.owner)
			if verdict.Status != tt.want || verdict.Admitted() != (verdict.Reason == "") {
				t.Errorf("got %+v, want status %d", verdict, tt.want)
			}
		})
	}
}

func TestAHeaderOver16KiBIsRefused(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup // the server does not wait for its connections
	server := &http.Server{
		MaxHeaderBytes: MaxHeaderBytes,
		Handler:        Guard{Port: l.Port()}.Protect(Health, http.NotFoundHandler()),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				serving.Add(1)
			case http.StateClosed:
				serving.Done()
			}
		},
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	defer func() { server.Close(); <-done; serving.Wait() }()
	for size, want := range map[int]int{15 << 10: http.StatusNotFound, 17 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		head := "GET /healthz HTTP/1.1\r\nHost: " + l.Addr().String() + "\r\nX-Fill: "
		_, _ = io.WriteString(conn, head+strings.Repeat("x", size-len(head)-4)+"\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("header of %d bytes: %d, want %d", size, answer.StatusCode, want)
		}
	}
}

func FuzzCheckHost(f *testing.F) {
	for _, s := range []string{"127.0.0.1:4711", "localhost:4711", "[::1]:4711", "127.0.0.1:4711.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		lower := strings.ToLower(host)
		want := lower == "127.0.0.1:4711" || lower == "localhost:4711"
		if got := CheckHost(host, 4711); got != want {
			t.Fatalf("CheckHost(%q) = %v", host, got)
		}
	})
}

// FuzzJudge looks at whole requests: under a foreign Host nobody is admitted, and a
// page is admitted only where pages are meant to come in, and only by an origin that
// can be told.
func FuzzJudge(f *testing.F) {
	f.Add("127.0.0.1:4711", "GET", "https://app.example", "cross-site", uint8(2), true)
	f.Add("localhost:4711", "POST", "http://localhost:4711", "same-origin", uint8(1), true)
	f.Add("rebound.example:4711", "GET", "", "", uint8(3), false)
	f.Add("127.0.0.1:4711", "PUT", "null", "none", uint8(2), true)
	classes := []Class{Health, Ticket, Agent, Socket, Inspect, 0}
	f.Fuzz(func(t *testing.T, host, method, origin, site string, n uint8, stated bool) {
		class := classes[int(n)%len(classes)]
		r := &http.Request{Method: method, Host: host, Header: http.Header{"Sec-Fetch-Site": {site}}}
		if stated {
			r.Header["Origin"] = []string{origin}
		}
		v := Guard{Port: 4711}.Judge(r, class)
		if !v.Admitted() {
			if v.Status < 400 || v.Status > 499 || v.Reason == "" {
				t.Fatalf("refused with %+v", v)
			}
			return
		}
		if !CheckHost(host, 4711) || class == 0 {
			t.Fatalf("%q was admitted to class %d", host, class)
		}
		if !stated {
			return
		}
		_, told := NormalizeOrigin(origin)
		own := strings.EqualFold(origin, "http://"+host)
		if class == Health || class == Agent || class == Socket && !told || class == Inspect && !own {
			t.Fatalf("a page of %q was admitted to class %d", origin, class)
		}
	})
}
