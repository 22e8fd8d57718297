package inspect

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// FuzzQuery reads what a list and a stream are asked for.
func FuzzQuery(f *testing.F) {
	f.Add("status=idle&limit=5&after=t0", "7", uint64(1000))
	f.Add("limit=0", "", uint64(3))
	f.Add("limit=1001", "", uint64(3))
	f.Add("limit=99999999999999999999&status=x", "-1", ^uint64(0))
	f.Add("after=12&after=%ff", "18446744073709551615", uint64(0))
	f.Fuzz(func(t *testing.T, query, lastEvent string, latest uint64) {
		r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{"Last-Event-Id": {lastEvent}}}
		found, err := listQuery(r)
		if err != nil && !fault.Is(err, fault.InvalidInput) {
			t.Fatalf("%q: %v", query, err)
		}
		if err == nil && (found.Limit < 0 || found.Limit > thread.MaxListLimit || found.After != r.URL.Query().Get("after")) {
			t.Fatalf("%q asks for %+v", query, found)
		}
		after, err := new(stream).start(r, latest)
		if err != nil {
			if !fault.Is(err, fault.InvalidInput) {
				t.Fatal(err)
			}
			return
		}
		if lastEvent != "" {
			if n, err := strconv.ParseUint(lastEvent, 10, 64); err != nil || n != after {
				t.Fatalf("%q begins behind %d", lastEvent, after)
			}
		}
		if r.URL.Query().Get("after") == "" && lastEvent == "" && (after > latest || latest-after > history) {
			t.Fatalf("a fresh stream begins behind %d of %d", after, latest)
		}
	})
}

// FuzzRequest sends anything to the page's server, without a session: nothing of
// the daemon is told, and no mistake is the server's.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/inspect/", "", "")
	f.Add("GET", "/inspect/threads/t0/events?after=1", "pedelec-inspect=x", "")
	f.Add("GET", "/inspect/threads", "pedelec_inspect_4711=x", "")
	f.Add("GET", "/inspect/runtimes", "", "")
	f.Add("POST", "/inspect/session", "", `{"code":"x"}`)
	f.Add("GET", "/inspect/page/../../etc/passwd", "", "")
	const port = 4711
	i := New(Config{Threads: newMemoryThreads(), Runtimes: memoryRuntimes{}, Peers: &memoryPeers{}, Log: zerolog.Nop()})
	f.Cleanup(i.Close)
	handler := i.Handler()
	near, far := net.Pipe()
	f.Cleanup(func() { near.Close(); far.Close() })
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	f.Fuzz(func(t *testing.T, method, target, cookie, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := &http.Request{
			Method: method, URL: u, Host: "127.0.0.1:4711", Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Cookie": {cookie}, "Origin": {"http://127.0.0.1:4711"}},
		}
		ctx := KeepConn(context.WithValue(t.Context(), http.LocalAddrContextKey, local), near)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(ctx))
		if w.Code >= 500 {
			t.Fatalf("%s %s was answered %d: %s", method, target, w.Code, w.Body)
		}
		if w.Result().Header.Get("Set-Cookie") != "" {
			t.Fatalf("%s %s with %q was given a session", method, target, body)
		}
		if (strings.HasPrefix(u.Path, Route+"/threads") || strings.HasPrefix(u.Path, Route+"/runtimes")) && w.Code == http.StatusOK {
			t.Fatalf("%s %s was answered without a session: %s", method, target, w.Body)
		}
	})
}
