package mcp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzMessages sends any message to a thread's address: none without the secret
// reaches a page, and none is a mistake of the server.
func FuzzMessages(f *testing.F) {
	for _, body := range []string{
		hello,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"paint","arguments":{"color":"teal"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
		`{"jsonrpc":"2.0","id":4,"result":{}}`, `[]`, `{"id":1,"id":2}`, "\xff", ``,
	} {
		f.Add(http.MethodPost, body, true)
		f.Add(http.MethodPost, body, false)
	}
	f.Add(http.MethodDelete, "", true)
	s := newStand(f, nil)
	address, secret := s.openThread("t0")
	local, ok := s.server.Listener.Addr().(*net.TCPAddr)
	if !ok {
		f.Fatal("no TCP")
	}
	path := strings.TrimPrefix(address, s.server.URL)
	mux := http.NewServeMux()
	mux.Handle(Route, s.manager)
	f.Fuzz(func(t *testing.T, method, body string, knows bool) {
		if method == http.MethodGet {
			return // a stream, which stays open
		}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local), http.MethodPost, path, strings.NewReader(body))
		r.Method, r.Host = method, local.String()
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		shown := "wrong"
		if knows {
			shown = secret
		}
		r.Header.Set("Authorization", "Bearer "+shown)
		before := len(s.made())
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable && w.Code != http.StatusNotImplemented {
			t.Fatalf("%s %q was answered %d: %s", method, body, w.Code, w.Body)
		}
		if !knows && (w.Code < 400 || len(s.made()) > before) {
			t.Fatalf("%s %q without the secret was answered %d", method, body, w.Code)
		}
		for _, call := range s.made()[before:] {
			if call.ThreadID != "t0" || len(call.Args) > 0 && !jsontext.Value(call.Args).IsValid() {
				t.Fatalf("%q became %+v", body, call)
			}
		}
		_, _ = io.Copy(io.Discard, w.Body)
	})
}
