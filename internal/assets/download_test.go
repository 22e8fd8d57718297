package assets

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestCreateDownloadGivesATicket(t *testing.T) {
	s := newScene(t)
	file := s.write("{}", "a", "b.json")
	modified := time.Date(1965, 1, 2, 3, 4, 5, 0, time.UTC)
	must(t, os.Chtimes(file, modified, modified))
	got := s.downloadTicket(threadA, "/a/b.json")
	if !regexp.MustCompile(`^dnl_[0-9a-f]{16}$`).MatchString(got.DownloadID) || len(got.Token) != 64 {
		t.Errorf("ticket %+v", got)
	}
	want := DownloadTicket{
		DownloadID: got.DownloadID, DownloadURL: "http://" + s.endpoint + "/downloads/" + got.DownloadID, Token: got.Token,
		Path: "/a/b.json", Name: "b.json", SizeBytes: 2, ModifiedAt: time.UnixMilli(0), // never before 1970
		MimeType: "application/json", ExpiresAt: s.clock().Add(DefaultTicketLife),
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCreateDownloadChecks(t *testing.T) {
	s := newScene(t)
	s.write("x", "file")
	s.write("x", "dir", "inner")
	large := s.write("", "large")
	must(t, os.Truncate(large, MaxFileBytes+1))
	limit := s.write("", "limit")
	must(t, os.Truncate(limit, MaxFileBytes))
	must(t, os.Symlink(s.assets("file"), s.assets("link")))
	must(t, os.Symlink(s.assets("link"), s.assets("chain")))
	must(t, os.Symlink(s.assets("nowhere"), s.assets("dangling")))
	must(t, os.Symlink(s.assets("dir"), s.assets("linked-dir")))
	for _, c := range []struct {
		path    string
		code    fault.Code
		details []string
	}{
		{"/file", "", nil},
		{"/dir/inner", "", nil},
		{"/limit", "", nil},
		{"file", fault.AssetPathInvalid, []string{"path"}},
		{"/dir/../file", fault.AssetPathInvalid, []string{"path"}},
		{"/none", fault.AssetNotFound, []string{"path"}},
		{"/none/none", fault.AssetNotFound, []string{"path"}},
		{"/file/none", fault.AssetNotFound, []string{"path"}},
		{"/dir", fault.AssetNotFile, []string{"path"}},
		{"/link", fault.AssetNotFile, []string{"path"}},
		{"/chain", fault.AssetNotFile, []string{"path"}},
		{"/dangling", fault.AssetNotFile, []string{"path"}},
		{"/linked-dir/inner", fault.AssetNotFile, []string{"path"}},
		{"/large", fault.AssetReadTooLarge, []string{"path", "sizeBytes", "maxBytes"}},
	} {
		t.Run(c.path, func(t *testing.T) {
			_, err := s.m.CreateDownload(t.Context(), anyone, threadA, c.path)
			if c.code == "" {
				must(t, err)
				return
			}
			wantCode(t, err, c.code, c.details...)
		})
	}
}

func TestCreateDownloadChecksInOrder(t *testing.T) {
	s := newScene(t)
	s.write("x", "file")
	s.m.cfg.HTTPEndpoint = func() string { return "" }
	s.threads.set(threadB, func(i *Info) { i.Status = thread.Stopping })
	ask := func(c thread.Caller, id, path string) error {
		_, err := s.m.CreateDownload(t.Context(), c, id, path)
		return err
	}
	owner := callerOf(threadB)
	wantCode(t, ask(owner, "unknown", "bad"), fault.ThreadNotFound, "threadId")
	wantCode(t, ask(anyone, threadB, "bad"), fault.ThreadAccessDenied, "threadId")
	wantCode(t, ask(owner, threadB, "bad"), fault.ThreadEnded, "threadId")
	s.threads.set(threadB, func(i *Info) { i.Status = thread.Failed })
	wantCode(t, ask(owner, threadB, "bad"), fault.AssetPathInvalid, "path")
	wantCode(t, ask(owner, threadB, "/none"), fault.AssetNotFound, "path")
	wantCode(t, ask(owner, threadB, "/file"), fault.AssetUploadServerUnavailable)
}

func TestDownloadBeforeAnythingWasMade(t *testing.T) {
	s := newScene(t)
	_, err := s.m.CreateDownload(t.Context(), anyone, threadA, "/f")
	wantCode(t, err, fault.AssetNotFound, "path")
	if entries, _ := os.ReadDir(s.workspace); len(entries) != 0 {
		t.Errorf("the workspace holds %v now", entries)
	}
}

func TestDownloadTicketsAreBounded(t *testing.T) {
	s := newScene(t)
	s.write("x", "f")
	first := s.downloadTicket(threadA, "/f")
	for range maxDownloadTickets {
		s.downloadTicket(threadA, "/f")
	}
	if tickets, _ := s.kept(); tickets != maxDownloadTickets {
		t.Errorf("%d tickets are kept", tickets)
	}
	s.get(first).expect(t, 401, fault.AssetDownloadUnauthorized)
	s.pass(DefaultTicketLife + keepExpired + time.Second)
	s.downloadTicket(threadB, "/f")
	if tickets, desks := s.kept(); tickets != 1 || desks != 1 {
		t.Errorf("%d tickets and %d desks are left", tickets, desks)
	}
}
