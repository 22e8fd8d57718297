package assets

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
)

// FuzzTicketRequest sends anything to the URLs of transfers: without a ticket's token
// nothing is told and nothing is written.
func FuzzTicketRequest(f *testing.F) {
	s := newScene(f)
	s.write("secret", "a.txt")
	down := s.downloadTicket(threadA, "/a.txt")
	up := s.uploadTicket(threadA, "/b.txt", 3)
	f.Add("GET", strings.TrimPrefix(down.DownloadURL, "http://"+s.endpoint), "Bearer wrong", "bytes=0-2", "https://app.example", "")
	f.Add("PUT", strings.TrimPrefix(up.UploadURL, "http://"+s.endpoint), "Bearer ", "", "", "abc")
	f.Add("OPTIONS", "/downloads/x", "", "", "null", "")
	f.Add("GET", "/downloads/../uploads/%2e%2e/x", "Basic x", "bytes=-1", "", "")
	folder := s.assets()
	host, local := s.endpoint, localOf(f, s.endpoint)
	handler := s.m.Handler()
	f.Fuzz(func(t *testing.T, method, target, authorization, ranges, origin, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.Contains(authorization, down.Token) || strings.Contains(authorization, up.Token) {
			return
		}
		r := &http.Request{
			Method: method, URL: u, Host: host, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Authorization": {authorization}, "Range": {ranges}, "Origin": {origin}},
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local)))
		if w.Code >= 500 || w.Code == http.StatusOK || w.Code == http.StatusCreated || w.Code == http.StatusPartialContent {
			t.Fatalf("%s %s was answered %d: %s", method, target, w.Code, w.Body)
		}
		if bytes.Contains(w.Body.Bytes(), []byte("secret")) {
			t.Fatalf("%s %s was told the file", method, target)
		}
		if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
			t.Fatalf("%s %s left %v, %v", method, target, files, err)
		}
	})
}

// FuzzRange asks for parts of a file: what comes is that part.
func FuzzRange(f *testing.F) {
	const content = "0123456789"
	s := newScene(f)
	s.write(content, "a.txt")
	down := s.downloadTicket(threadA, "/a.txt")
	for _, ranges := range []string{"bytes=0-2", "bytes=-1", "bytes=5-", "bytes=0-0,9-9", "bytes=99-", "lines=1", "bytes=2-1", ""} {
		f.Add(ranges, "")
	}
	f.Add("bytes=1-3", `"x"`)
	f.Fuzz(func(t *testing.T, ranges, ifRange string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, down.DownloadURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + down.Token}, "Range": {ranges}, "If-Range": {ifRange}}
		res, err := s.client.Do(r)
		if err != nil {
			return // no header may have such a value
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		switch res.StatusCode {
		case http.StatusOK:
			if string(body) != content {
				t.Fatalf("Range %q was answered with %q for all of it", ranges, body)
			}
		case http.StatusPartialContent:
			if !strings.HasPrefix(res.Header.Get("Content-Type"), "multipart/") && !strings.Contains(content, string(body)) {
				t.Fatalf("Range %q was answered with %q", ranges, body)
			}
		case http.StatusRequestedRangeNotSatisfiable, http.StatusBadRequest:
		default:
			t.Fatalf("Range %q was answered %s: %s", ranges, res.Status, body)
		}
	})
}

func localOf(f *testing.F, endpoint string) *net.TCPAddr {
	local, err := net.ResolveTCPAddr("tcp4", endpoint)
	must(f, err)
	return local
}
