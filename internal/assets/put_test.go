package assets

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestPutStoresTheFile(t *testing.T) {
	s := newScene(t)
	for _, c := range []struct{ name, target, content string }{
		{"at the root", "/a.txt", "hello"},
		{"in folders that are made", "/deep/er/b.bin", "hello"},
		{"zero bytes", "/empty", ""},
		{"over another file", "/a.txt", "second"},
		{"a name with quotes", `/say "hi".txt`, "q"},
		{"emoji", "/🚲 bike.txt", "e"},
		{"a hidden file", "/.env", "x"},
		{"a path that is longer than the system takes at once", "/" + strings.Repeat("a/", 2040) + "f", "deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ticket := s.uploadTicket(threadA, c.target, len(c.content))
			got := s.put(ticket, []byte(c.content), "Content-Type", "text/plain")
			got.expect(t, http.StatusCreated, "")
			want := fmt.Sprintf(`{"path":"%s"}`, strings.ReplaceAll(c.target, `"`, `\"`))
			if string(got.body) != want || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("body %s of type %s, want %s", got.body, got.header.Get("Content-Type"), want)
			}
			if len(c.target) < 1024 {
				s.wantContent(c.content, filepath.FromSlash(c.target))
			} else if got := s.get(s.downloadTicket(threadA, c.target)); string(got.body) != c.content {
				t.Errorf("read back %q", got.body)
			}
			if staged := s.threads.stagedOf(threadA); staged != "" {
				t.Errorf("the record still holds %q", staged)
			}
		})
	}
	if n := len(s.list(threadA).Assets); n != 7 {
		t.Errorf("%d files are listed", n)
	}
	info, err := os.Stat(s.assets("a.txt"))
	must(t, err)
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may look: %v", info.Mode())
	}
}

func TestPutRemembersTheTemporaryFile(t *testing.T) {
	s := newScene(t)
	ticket := s.uploadTicket(threadA, "/x/y.txt", 4)
	conn := s.beginPut(ticket, 4, "ab")
	want := ".pedelec-runtime/assets/x/.pedelec-" + ticket.UploadID
	if got := s.threads.stagedOf(threadA); got != want {
		t.Errorf("the record holds %q, want %q", got, want)
	}
	list, err := s.m.List(t.Context(), anyone, threadA)
	must(t, err)
	if len(list.Assets) != 0 {
		t.Errorf("a partial file is listed: %v", list.Assets)
	}
	_, err = conn.Write([]byte("cd"))
	must(t, err)
	readAnswer(t, conn).expect(t, http.StatusCreated, "")
	s.wantFiles("/x/y.txt")
}

// readAnswer reads an answer from a raw connection.
func readAnswer(t testing.TB, conn net.Conn) answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return answer{resp.StatusCode, resp.Header, body}
}

func TestPutSizes(t *testing.T) {
	full := bytes.Repeat([]byte("0123456789abcdef"), MaxFileBytes/16)
	for _, c := range []struct {
		name      string
		announced int
		body      io.Reader
		status    int
	}{
		{"exactly 100 MiB", MaxFileBytes, bytes.NewReader(full), http.StatusCreated},
		{"100 MiB and a byte", MaxFileBytes, bytes.NewReader(append(full, 'x')), http.StatusRequestEntityTooLarge},
		{"longer than announced", 4, strings.NewReader("12345"), http.StatusRequestEntityTooLarge},
		{"shorter than announced", 4, strings.NewReader("123"), http.StatusBadRequest},
		{"empty instead of something", 4, http.NoBody, http.StatusBadRequest},
		{"something instead of empty", 0, strings.NewReader("1"), http.StatusRequestEntityTooLarge},
		{"chunked", 4, struct{ io.Reader }{strings.NewReader("1234")}, http.StatusLengthRequired},
		{"chunked and empty", 0, struct{ io.Reader }{strings.NewReader("")}, http.StatusLengthRequired},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			ticket := s.uploadTicket(threadA, "/f", c.announced)
			r, err := http.NewRequestWithContext(t.Context(), "PUT", ticket.UploadURL, c.body)
			must(t, err)
			if _, unknown := c.body.(struct{ io.Reader }); unknown {
				r.ContentLength = -1
				r.TransferEncoding = []string{"chunked"}
			}
			r.Header.Set("Authorization", "Bearer "+ticket.Token)
			resp, err := s.client.Do(r)
			must(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			got := answer{resp.StatusCode, resp.Header, body}
			if c.status == http.StatusCreated {
				got.expect(t, c.status, "")
				s.wantContent(string(full), "f")
				return
			}
			got.expect(t, c.status, fault.AssetUploadSizeMismatch)
			s.wantFiles()
			s.put(ticket, make([]byte, c.announced)).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
		})
	}
}

func TestPutWithoutALength(t *testing.T) {
	s := newScene(t)
	ticket := s.uploadTicket(threadA, "/f", 0)
	conn := s.dial()
	_, err := fmt.Fprintf(conn, "PUT /uploads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", ticket.UploadID, s.endpoint, ticket.Token)
	must(t, err)
	readAnswer(t, conn).expect(t, http.StatusLengthRequired, fault.AssetUploadSizeMismatch)
}

func TestABodyThatBreaksOffLeavesNothing(t *testing.T) {
	for name, hangUp := range map[string]func(*net.TCPConn) error{
		"half closed": (*net.TCPConn).CloseWrite,
		"stalls":      func(*net.TCPConn) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(c *Config) { c.IdleTimeout, c.DrainTimeout = 100*time.Millisecond, 100*time.Millisecond })
			conn := s.beginPut(s.uploadTicket(threadA, "/f", 10), 10, "12345")
			must(t, hangUp(conn.(*net.TCPConn)))
			readAnswer(t, conn).expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
			s.wantFiles()
			if staged := s.threads.stagedOf(threadA); staged != "" {
				t.Errorf("the record still holds %q", staged)
			}
			s.put(s.uploadTicket(threadA, "/f", 1), []byte("1")).expect(t, http.StatusCreated, "")
		})
	}
}

func TestAnUploadMayNotTakeForEver(t *testing.T) {
	s := newScene(t, func(c *Config) { c.TransferTimeout = 100 * time.Millisecond; c.DrainTimeout = c.TransferTimeout })
	conn := s.beginPut(s.uploadTicket(threadA, "/f", 10), 10, "12345")
	readAnswer(t, conn).expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
	s.wantFiles()
}

func TestPutUnauthorized(t *testing.T) {
	s := newScene(t)
	ticket := s.uploadTicket(threadA, "/f", 4)
	download := s.downloadTicket(threadA, publicFile(s))
	var bodies []string
	for _, c := range []struct{ name, url, authorization string }{
		{"no token", ticket.UploadURL, ""},
		{"wrong token", ticket.UploadURL, "Bearer " + strings.Repeat("0", 64)},
		{"the id as token", ticket.UploadURL, "Bearer " + ticket.UploadID},
		{"another scheme", ticket.UploadURL, "Basic " + ticket.Token},
		{"token with a blank", ticket.UploadURL, "Bearer " + ticket.Token + " x"},
		{"unknown id", "http://" + s.endpoint + "/uploads/upl_0000000000000000", "Bearer " + ticket.Token},
		{"id of a download", "http://" + s.endpoint + "/uploads/" + download.DownloadID, "Bearer " + download.Token},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := s.do("PUT", c.url, strings.NewReader("1234"), "Authorization", c.authorization)
			got.expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
			bodies = append(bodies, string(got.body))
		})
	}
	s.put(ticket, []byte("1234")).expect(t, http.StatusCreated, "") // nothing has burnt it
	used := s.put(ticket, []byte("1234"))
	used.expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
	for _, body := range bodies {
		if body != string(used.body) {
			t.Errorf("answers differ: %s and %s", body, used.body)
		}
	}
}

// publicFile makes a file to download and returns its public path.
func publicFile(s *scene) string {
	s.t.Helper()
	s.write("content", "given.txt")
	return "/given.txt"
}

func TestPutExpired(t *testing.T) {
	s := newScene(t)
	ticket := s.uploadTicket(threadA, "/f", 4)
	s.pass(DefaultTicketLife)
	wrong := UploadTicket{UploadURL: ticket.UploadURL, Token: "wrong"}
	s.put(wrong, []byte("1234")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
	for range 2 {
		s.put(ticket, []byte("1234")).expect(t, http.StatusGone, fault.AssetUploadTicketExpired)
	}
	s.pass(keepExpired + time.Second)
	s.uploadTicket(threadB, "", 1) // sweeps
	s.put(ticket, []byte("1234")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)

	last := s.uploadTicket(threadA, "/g", 4)
	s.pass(DefaultTicketLife - time.Millisecond)
	s.put(last, []byte("1234")).expect(t, http.StatusCreated, "")
	s.wantFiles("/g")
}

func TestPutDuringAnotherUpload(t *testing.T) {
	s := newScene(t)
	first, second := s.uploadTicket(threadA, "/1", 2), s.uploadTicket(threadA, "/2", 2)
	conn := s.beginPut(first, 2, "a")
	s.put(second, []byte("ab")).expect(t, http.StatusConflict, fault.ThreadBusy)
	s.put(second, []byte("ab")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized) // used up
	s.put(first, []byte("ab")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
	_, err := s.m.CreateUpload(t.Context(), anyone, UploadRequest{ThreadID: threadA, Filename: "f"})
	wantCode(t, err, fault.ThreadBusy, "threadId")
	s.put(s.uploadTicket(threadB, "/b", 1), []byte("b")).expect(t, http.StatusCreated, "") // another thread
	_, err = conn.Write([]byte("b"))
	must(t, err)
	readAnswer(t, conn).expect(t, http.StatusCreated, "")
	s.wantFiles("/1", "/b")
}

func TestPutWhenTheRecordCannotBeWritten(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   fault.Code
	}{
		{fault.New(fault.StorageFull, ""), http.StatusInsufficientStorage, fault.StorageFull},
		{fault.New(fault.StorageFailed, ""), http.StatusBadRequest, fault.AssetUploadFailed},
		{fault.New(fault.ThreadEnded, ""), http.StatusBadRequest, fault.AssetUploadFailed},
	} {
		s := newScene(t)
		s.threads.err = c.err
		s.put(s.uploadTicket(threadA, "/f", 1), []byte("1")).expect(t, c.status, c.code)
		s.wantFiles()
	}
}

func TestAFailureAtAnyStepLeavesNothing(t *testing.T) {
	for _, point := range []string{"staged", "chunk", "written"} {
		for action, want := range map[string]struct {
			status int
			code   fault.Code
		}{
			"error": {http.StatusBadRequest, fault.AssetUploadFailed},
			"full":  {http.StatusInsufficientStorage, fault.StorageFull},
		} {
			t.Run(point+" "+action, func(t *testing.T) {
				s := newScene(t)
				s.write("old", "f")
				arm(t, "assets.upload."+point+"="+action)
				s.put(s.uploadTicket(threadA, "/f", 3), []byte("new")).expect(t, want.status, want.code)
				s.wantFiles("/f")
				s.wantContent("old", "f")
				if staged := s.threads.stagedOf(threadA); staged != "" {
					t.Errorf("the record still holds %q", staged)
				}
				s.put(s.uploadTicket(threadA, "/f", 3), []byte("new")).expect(t, http.StatusCreated, "")
			})
		}
	}
}

func TestPutWhereTheTargetIsNoFile(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(s *scene)
		target  string
	}{
		{"a folder", func(s *scene) { s.write("x", "f", "inner") }, "/f"},
		{"a link", func(s *scene) { s.write("x", "real"); must(t, os.Symlink(s.assets("real"), s.assets("f"))) }, "/f"},
		{"a dangling link", func(s *scene) { s.write("x", "real"); must(t, os.Symlink(s.assets("none"), s.assets("f"))) }, "/f"},
		{"a parent is a file", func(s *scene) { s.write("x", "f") }, "/f/g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			c.prepare(s)
			before := s.visible()
			got := s.put(s.uploadTicket(threadA, c.target, 1), []byte("1"))
			got.expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
			s.wantFiles(before...)
		})
	}
}

func TestPutMethodsOriginsAndHeaders(t *testing.T) {
	s := newScene(t)
	for _, c := range []struct {
		name, threadID, origin, allowed string
		status                          int
		code                            fault.Code
	}{
		{"the owner's page", threadB, appPage, appPage, 201, ""},
		{"a native caller", threadB, "", appPage, 201, ""},
		{"another page", threadB, "https://evil.example", appPage, 403, fault.ThreadAccessDenied},
		{"a page that hides", threadB, "null", appPage, 403, fault.ThreadAccessDenied},
		{"any page where nobody owns", threadA, "https://any.example", "https://any.example", 201, ""},
		{"a hidden page where nobody owns", threadA, "null", "null", 201, ""},
		{"nobody where nobody owns", threadA, "", "", 201, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ticket := s.uploadTicket(c.threadID, "/f", 1)
			var header []string
			if c.origin != "" {
				header = []string{"Origin", c.origin, "Sec-Fetch-Site", "cross-site"}
			}
			got := s.put(ticket, []byte("1"), header...)
			got.expect(t, c.status, c.code)
			if allowed := got.header.Get("Access-Control-Allow-Origin"); allowed != c.allowed {
				t.Errorf("allowed origin %q, want %q", allowed, c.allowed)
			}
			if c.status == 403 { // the ticket is not used up
				s.put(ticket, []byte("1"), "Origin", appPage).expect(t, 201, "")
			}
		})
	}
	unknown := s.put(UploadTicket{UploadURL: "http://" + s.endpoint + "/uploads/upl_1"}, []byte("1"), "Origin", "https://any.example")
	unknown.expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
	if got := unknown.header.Get("Access-Control-Allow-Origin"); got != "https://any.example" {
		t.Errorf("the page cannot read its 401: allowed origin %q", got)
	}
}

func TestExpectContinueIsAskedForOnlyWhenTheBodyIsWanted(t *testing.T) {
	s := newScene(t)
	for name, c := range map[string]struct {
		length int
		first  int
	}{"wanted": {2, http.StatusContinue}, "refused": {3, http.StatusRequestEntityTooLarge}} {
		ticket := s.uploadTicket(threadA, "/f", 2)
		conn := s.dial()
		_, err := fmt.Fprintf(conn, "PUT /uploads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			ticket.UploadID, s.endpoint, ticket.Token, c.length)
		must(t, err)
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		must(t, err)
		if resp.StatusCode != c.first {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.first)
		}
		if c.first != http.StatusContinue {
			continue
		}
		_, err = conn.Write([]byte("ab"))
		must(t, err)
		resp, err = http.ReadResponse(r, nil)
		must(t, err)
		if resp.StatusCode != http.StatusCreated {
			t.Errorf("%s: %d in the end", name, resp.StatusCode)
		}
	}
}

func TestPutTakesNoTicketOfAnEndedThread(t *testing.T) {
	s := newScene(t)
	ticket := s.uploadTicket(threadA, "/f", 1)
	s.m.Abort(threadA)
	s.threads.set(threadA, func(i *Info) { i.Status = thread.Ended })
	s.put(ticket, []byte("1")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
	s.m.Reopen(threadA)
	s.put(ticket, []byte("1")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
	s.wantFiles()
}
