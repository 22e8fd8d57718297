package assets

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// preflight is what Chromium sends before a cross-origin upload to loopback.
func preflight(origin, method string) []string {
	return []string{
		"Accept", "*/*",
		"Access-Control-Request-Headers", "authorization,content-type",
		"Access-Control-Request-Method", method,
		"Access-Control-Request-Private-Network", "true",
		"Origin", origin,
		"Referer", origin + "/",
		"Sec-Fetch-Dest", "empty",
		"Sec-Fetch-Mode", "cors",
		"Sec-Fetch-Site", "cross-site",
	}
}

func TestOptions(t *testing.T) {
	s := newScene(t)
	mine, anybodys := s.uploadTicket(threadB, "/f", 1), s.uploadTicket(threadA, "/f", 1)
	given := s.downloadTicket(threadB, publicFile(s))
	base := "http://" + s.endpoint
	for _, c := range []struct {
		name, url, origin, allowed, methods string
		status                              int
	}{
		{"the owner's upload", mine.UploadURL, appPage, appPage, "PUT, OPTIONS", 204},
		{"the owner's download", given.DownloadURL, appPage, appPage, "GET, HEAD, OPTIONS", 204},
		{"an upload that nobody owns", anybodys.UploadURL, "https://any.example", "https://any.example", "PUT, OPTIONS", 204},
		{"an unknown upload", base + "/uploads/upl_0", "https://any.example", "https://any.example", "PUT, OPTIONS", 204},
		{"an unknown download", base + "/downloads/dnl_0", "https://any.example", "https://any.example", "GET, HEAD, OPTIONS", 204},
		{"another page", mine.UploadURL, "https://evil.example", appPage, "", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do("OPTIONS", c.url, nil, preflight(c.origin, "PUT")...)
			code := fault.Code("")
			if c.status == 403 {
				code = fault.ThreadAccessDenied
			}
			got.expect(t, c.status, code)
			want := map[string]string{"Access-Control-Allow-Origin": c.allowed, "Access-Control-Allow-Methods": c.methods}
			if c.status == 204 {
				want["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Range"
				want["Access-Control-Max-Age"] = "300"
				want["Access-Control-Allow-Private-Network"] = "true"
			}
			for name, value := range want {
				if have := got.header.Get(name); have != value {
					t.Errorf("%s is %q, want %q", name, have, value)
				}
			}
			if len(got.body) != 0 && c.status == 204 {
				t.Errorf("a body of %d bytes", len(got.body))
			}
		})
	}
	quiet := s.do("OPTIONS", mine.UploadURL, nil)
	quiet.expect(t, 204, "")
	if quiet.header.Get("Access-Control-Allow-Private-Network") != "" {
		t.Error("the private network is allowed unasked")
	}
	s.put(mine, []byte("1"), "Origin", appPage).expect(t, http.StatusCreated, "") // preflights use nothing up
}

func TestWhatIsNotServed(t *testing.T) {
	s := newScene(t)
	up, down := s.uploadTicket(threadA, "/f", 1), s.downloadTicket(threadA, publicFile(s))
	base := "http://" + s.endpoint
	for _, c := range []struct {
		method, url string
		status      int
		allow       string
	}{
		{"GET", up.UploadURL, 405, "PUT, OPTIONS"},
		{"HEAD", up.UploadURL, 405, "PUT, OPTIONS"},
		{"POST", up.UploadURL, 405, "PUT, OPTIONS"},
		{"DELETE", up.UploadURL, 405, "PUT, OPTIONS"},
		{"PATCH", up.UploadURL, 405, "PUT, OPTIONS"},
		{"put", up.UploadURL, 405, "PUT, OPTIONS"},
		{"PUT", down.DownloadURL, 405, "GET, HEAD, OPTIONS"},
		{"POST", down.DownloadURL, 405, "GET, HEAD, OPTIONS"},
		{"PUT", base + "/uploads/", 404, ""},
		{"PUT", base + "/uploads", 404, ""},
		{"PUT", up.UploadURL + "/", 404, ""},
		{"PUT", up.UploadURL + "/more", 404, ""},
		{"GET", base + "/downloads/", 404, ""},
		{"GET", base + "/", 404, ""},
		{"OPTIONS", base + "/uploads/", 404, ""},
		{"OPTIONS", base + "/elsewhere", 404, ""},
	} {
		t.Run(c.method+" "+strings.TrimPrefix(c.url, base), func(t *testing.T) {
			got := s.do(c.method, c.url, strings.NewReader("1"), "Origin", "https://any.example", "Authorization", "Bearer "+up.Token)
			code := fault.InvalidInput
			if c.method == "HEAD" {
				code = ""
			}
			got.expect(t, c.status, code)
			if have := got.header.Get("Allow"); have != c.allow {
				t.Errorf("Allow is %q, want %q", have, c.allow)
			}
			if got.header.Get("Access-Control-Allow-Origin") != "https://any.example" {
				t.Error("the page cannot read the error")
			}
		})
	}
	s.put(up, []byte("1")).expect(t, http.StatusCreated, "")
}

func TestAnotherHostIsMisdirected(t *testing.T) {
	s := newScene(t)
	up, down := s.uploadTicket(threadA, "/f", 1), s.downloadTicket(threadA, publicFile(s))
	for _, host := range []string{"evil.example", "evil.example:" + port(s), "127.0.0.1", "127.0.0.1:1", "[::1]:" + port(s)} {
		s.put(up, []byte("1"), "Host", host).expect(t, http.StatusMisdirectedRequest, fault.InvalidInput)
		s.get(down, "Host", host).expect(t, http.StatusMisdirectedRequest, fault.InvalidInput)
		got := s.do("OPTIONS", up.UploadURL, nil, append(preflight(appPage, "PUT"), "Host", host)...)
		got.expect(t, http.StatusMisdirectedRequest, fault.InvalidInput)
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Error("a page of another host may read this")
		}
	}
	s.get(down, "Host", "localhost:"+port(s)).expect(t, http.StatusOK, "")
	s.put(up, []byte("1"), "Host", "localhost:"+port(s)).expect(t, http.StatusCreated, "")
}

func TestTwoOriginsAreRefused(t *testing.T) {
	s := newScene(t)
	up := s.uploadTicket(threadB, "/f", 1)
	got := s.put(up, []byte("1"), "Origin", appPage, "Origin", "https://evil.example")
	if got.status != http.StatusForbidden {
		t.Errorf("status %d", got.status)
	}
	s.wantFiles()
}

func port(s *scene) string { return s.endpoint[strings.LastIndexByte(s.endpoint, ':')+1:] }
