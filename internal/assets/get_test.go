package assets

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestGetServesTheFile(t *testing.T) {
	s := newScene(t)
	modified := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	for _, c := range []struct{ name, path, content, media string }{
		{"text", "/a.txt", "hello", "text/plain"},
		{"in a folder", "/deep/er/model.GLB", "g", "model/gltf-binary"},
		{"html is not shown", "/page.html", "<script>", "text/html"},
		{"unknown", "/x.unknown", "?", "application/octet-stream"},
		{"no extension", "/README", "?", "application/octet-stream"},
		{"zero bytes", "/empty.json", "", "application/json"},
		{"quotes", `/say "hi".pdf`, "q", "application/pdf"},
		{"emoji and percent", "/100% 🚲.png", "e", "image/png"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := s.write(c.content, strings.Split(c.path[1:], "/")...)
			must(t, os.Chtimes(file, modified, modified))
			ticket := s.downloadTicket(threadA, c.path)
			if ticket.MimeType != c.media || ticket.SizeBytes != int64(len(c.content)) || !ticket.ModifiedAt.Equal(modified) {
				t.Errorf("ticket %+v", ticket)
			}
			for range 2 { // it serves until it expires
				got := s.get(ticket)
				got.expect(t, http.StatusOK, "")
				if string(got.body) != c.content {
					t.Errorf("body %q, want %q", got.body, c.content)
				}
				for name, want := range map[string]string{
					"Content-Type":   c.media,
					"Content-Length": strconv.Itoa(len(c.content)),
					"Last-Modified":  "Wed, 06 May 2026 07:08:09 GMT",
					"Accept-Ranges":  "bytes",
				} {
					if have := got.header.Get(name); have != want {
						t.Errorf("%s is %q, want %q", name, have, want)
					}
				}
				if tag := got.header.Get("ETag"); len(tag) < 4 || tag[0] != '"' {
					t.Errorf("ETag %q is no strong one", tag)
				}
				kind, parameters, err := mime.ParseMediaType(got.header.Get("Content-Disposition"))
				if err != nil || kind != "attachment" || parameters["filename"] != ticket.Name {
					t.Errorf("disposition %q reads as %s %q, %v", got.header.Get("Content-Disposition"), kind, parameters, err)
				}
			}
			head := s.do("HEAD", ticket.DownloadURL, nil, "Authorization", "Bearer "+ticket.Token)
			head.expect(t, http.StatusOK, "")
			if len(head.body) != 0 || head.header.Get("Content-Length") != strconv.Itoa(len(c.content)) {
				t.Errorf("HEAD: %d bytes, length %s", len(head.body), head.header.Get("Content-Length"))
			}
		})
	}
}

func TestGetRangesAndConditions(t *testing.T) {
	s := newScene(t)
	s.write("0123456789", "f.txt")
	ticket := s.downloadTicket(threadA, "/f.txt")
	first := s.get(ticket)
	tag, modified := first.header.Get("ETag"), first.header.Get("Last-Modified")
	for _, c := range []struct {
		name   string
		header []string
		status int
		body   string
		ranged string // Content-Range
		code   fault.Code
	}{
		{"a range", []string{"Range", "bytes=2-4"}, 206, "234", "bytes 2-4/10", ""},
		{"an open range", []string{"Range", "bytes=7-"}, 206, "789", "bytes 7-9/10", ""},
		{"the end", []string{"Range", "bytes=-2"}, 206, "89", "bytes 8-9/10", ""},
		{"a range of the same state", []string{"Range", "bytes=0-0", "If-Range", tag}, 206, "0", "bytes 0-0/10", ""},
		{"a range of another state", []string{"Range", "bytes=0-0", "If-Range", `"other"`}, 200, "0123456789", "", ""},
		{"behind the end", []string{"Range", "bytes=10-"}, 416, "", "bytes */10", fault.InvalidInput},
		{"no range", []string{"Range", "bytes=x"}, 416, "", "", fault.InvalidInput},
		{"the state is known", []string{"If-None-Match", tag}, 304, "", "", ""},
		{"another state is known", []string{"If-None-Match", `"other"`}, 200, "0123456789", "", ""},
		{"not modified", []string{"If-Modified-Since", modified}, 304, "", "", ""},
		{"wanted as it is", []string{"If-Match", tag}, 200, "0123456789", "", ""},
		{"wanted otherwise", []string{"If-Match", `"other"`}, 412, "", "", fault.InvalidInput},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.get(ticket, append([]string{"Origin", appPage}, c.header...)...)
			got.expect(t, c.status, c.code)
			if c.code == "" && string(got.body) != c.body {
				t.Errorf("body %q, want %q", got.body, c.body)
			}
			if have := got.header.Get("Content-Range"); have != c.ranged {
				t.Errorf("Content-Range %q, want %q", have, c.ranged)
			}
			if got.header.Get("Access-Control-Allow-Origin") != appPage {
				t.Error("the page cannot read this")
			}
		})
	}
	several := s.get(ticket, "Range", "bytes=0-1,5-6")
	several.expect(t, 206, "")
	if kind, _, _ := mime.ParseMediaType(several.header.Get("Content-Type")); kind != "multipart/byteranges" {
		t.Errorf("several ranges come as %s", kind)
	}
}

func TestTheETagFollowsTheFile(t *testing.T) {
	s := newScene(t)
	file := s.write("one", "f")
	ticket := s.downloadTicket(threadA, "/f")
	before := s.get(ticket).header.Get("ETag")
	must(t, os.WriteFile(file, []byte("two"), 0o600))
	must(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)))
	got := s.get(ticket, "If-None-Match", before)
	got.expect(t, http.StatusOK, "")
	if string(got.body) != "two" || got.header.Get("ETag") == before {
		t.Errorf("body %q, ETag %s", got.body, got.header.Get("ETag"))
	}
}

func TestGetUnauthorizedAndExpired(t *testing.T) {
	s := newScene(t)
	ticket := s.downloadTicket(threadA, publicFile(s))
	upload := s.uploadTicket(threadA, "/u", 1)
	base := "http://" + s.endpoint + "/downloads/"
	var bodies []string
	for _, c := range []struct{ name, url, authorization string }{
		{"no token", ticket.DownloadURL, ""},
		{"wrong token", ticket.DownloadURL, "Bearer " + strings.Repeat("f", 64)},
		{"unknown id", base + "dnl_0000000000000000", "Bearer " + ticket.Token},
		{"id of an upload", base + upload.UploadID, "Bearer " + upload.Token},
		{"token in the query", ticket.DownloadURL + "?token=" + ticket.Token, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do("GET", c.url, nil, "Authorization", c.authorization)
			got.expect(t, http.StatusUnauthorized, fault.AssetDownloadUnauthorized)
			bodies = append(bodies, string(got.body))
			head := s.do("HEAD", c.url, nil, "Authorization", c.authorization)
			if head.status != http.StatusUnauthorized || len(head.body) != 0 {
				t.Errorf("HEAD: %d with %d bytes", head.status, len(head.body))
			}
		})
	}
	for _, body := range bodies {
		if body != bodies[0] {
			t.Errorf("answers differ: %s and %s", body, bodies[0])
		}
	}
	s.do("GET", ticket.DownloadURL, nil, "Authorization", "bearer "+ticket.Token).expect(t, http.StatusOK, "")
	s.pass(DefaultTicketLife)
	s.get(ticket).expect(t, http.StatusGone, fault.AssetDownloadTicketExpired)
	s.get(DownloadTicket{DownloadURL: ticket.DownloadURL}).expect(t, http.StatusUnauthorized, fault.AssetDownloadUnauthorized)
}

func TestGetLooksAtTheFileAgain(t *testing.T) {
	for name, change := range map[string]func(s *scene, path string) error{
		"gone":         func(_ *scene, path string) error { return os.Remove(path) },
		"a folder now": func(_ *scene, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a link now": func(s *scene, path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path))
		},
		"over 100 MiB":     func(_ *scene, path string) error { return os.Truncate(path, MaxFileBytes+1) },
		"no assets folder": func(s *scene, _ string) error { return os.RemoveAll(s.assets()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			path := s.write("content", "f")
			ticket := s.downloadTicket(threadA, "/f")
			must(t, change(s, path))
			s.get(ticket).expect(t, http.StatusNotFound, fault.AssetReadFailed)
		})
	}
}

func TestGetOfAFileThatShrinksBreaksOff(t *testing.T) {
	s := newScene(t)
	path := s.write("", "f")
	must(t, os.Truncate(path, 64<<20))
	ticket := s.downloadTicket(threadA, "/f")
	r, err := http.NewRequestWithContext(t.Context(), "GET", ticket.DownloadURL, nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+ticket.Token)
	resp, err := s.client.Do(r)
	must(t, err)
	defer resp.Body.Close()
	must(t, os.Truncate(path, 0)) // more is on the way than sockets hold
	if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestGetOrigins(t *testing.T) {
	s := newScene(t)
	path := publicFile(s)
	for _, c := range []struct {
		name, threadID, origin, allowed string
		status                          int
		code                            fault.Code
	}{
		{"the owner's page", threadB, appPage, appPage, 200, ""},
		{"a native caller", threadB, "", appPage, 200, ""},
		{"another page", threadB, "https://evil.example", appPage, 403, fault.ThreadAccessDenied},
		{"any page where nobody owns", threadA, "https://any.example", "https://any.example", 200, ""},
		{"nobody where nobody owns", threadA, "", "", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var header []string
			if c.origin != "" {
				header = []string{"Origin", c.origin}
			}
			got := s.get(s.downloadTicket(c.threadID, path), header...)
			got.expect(t, c.status, c.code)
			if allowed := got.header.Get("Access-Control-Allow-Origin"); allowed != c.allowed {
				t.Errorf("allowed origin %q, want %q", allowed, c.allowed)
			}
		})
	}
}

func TestGetOfAnEndedThread(t *testing.T) {
	s := newScene(t)
	ticket := s.downloadTicket(threadA, publicFile(s))
	s.m.Abort(threadA)
	s.threads.set(threadA, func(i *Info) { i.Status = thread.Ended })
	s.m.Ended(threadA)
	s.get(ticket).expect(t, http.StatusUnauthorized, fault.AssetDownloadUnauthorized)
}
