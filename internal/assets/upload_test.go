package assets

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestCreateUploadGivesATicket(t *testing.T) {
	s := newScene(t)
	ticket := s.uploadTicket(threadA, "", 4)
	if !regexp.MustCompile(`^upl_[0-9a-f]{16}$`).MatchString(ticket.UploadID) || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(ticket.Token) {
		t.Errorf("ticket %+v", ticket)
	}
	if want := "http://" + s.endpoint + "/uploads/" + ticket.UploadID; ticket.UploadURL != want {
		t.Errorf("URL %q, want %q", ticket.UploadURL, want)
	}
	if want := s.clock().Add(300 * time.Second); !ticket.ExpiresAt.Equal(want) {
		t.Errorf("expires at %v, want %v", ticket.ExpiresAt, want)
	}
	s.put(ticket, []byte("1234")).expect(t, http.StatusCreated, "")
	s.wantFiles("/" + ticket.UploadID + "-file.txt")
}

// The checks in their order: each case breaks one rule and all that come later.
func TestCreateUploadChecksInOrder(t *testing.T) {
	bad, good := "no slash", "/ok"
	everything := UploadRequest{ThreadID: "unknown", Filename: " ", SizeBytes: MaxFileBytes + 1, TargetPath: &bad}
	steps := []struct {
		name    string
		mend    func(s *scene, r *UploadRequest, c *thread.Caller)
		code    fault.Code
		details []string
	}{
		{"unknown thread", func(*scene, *UploadRequest, *thread.Caller) {}, fault.ThreadNotFound, []string{"threadId"}},
		{"not the owner", func(_ *scene, r *UploadRequest, _ *thread.Caller) { r.ThreadID = threadB }, fault.ThreadAccessDenied, []string{"threadId"}},
		{"no name", func(_ *scene, _ *UploadRequest, c *thread.Caller) { *c = callerOf(threadB) }, fault.InvalidInput, nil},
		{"too large", func(_ *scene, r *UploadRequest, _ *thread.Caller) { r.Filename = "a" }, fault.AssetTooLarge, []string{"sizeBytes", "maxBytes"}},
		{"no server", func(_ *scene, r *UploadRequest, _ *thread.Caller) { r.SizeBytes = MaxFileBytes }, fault.AssetUploadServerUnavailable, nil},
		{"ended", func(s *scene, _ *UploadRequest, _ *thread.Caller) {
			s.m.cfg.HTTPEndpoint = func() string { return s.endpoint }
		}, fault.ThreadEnded, []string{"threadId"}},
		{"busy", func(s *scene, _ *UploadRequest, _ *thread.Caller) {
			s.threads.set(threadB, func(i *Info) { i.Status = thread.Running })
		}, fault.ThreadBusy, []string{"threadId"}},
		{"bad target", func(s *scene, _ *UploadRequest, _ *thread.Caller) { s.m.desks[threadB].uploading = false }, fault.AssetPathInvalid, []string{"path"}},
		{"nothing", func(_ *scene, r *UploadRequest, _ *thread.Caller) { r.TargetPath = &good }, "", nil},
	}
	s := newScene(t, func(c *Config) { c.HTTPEndpoint = func() string { return "" } })
	s.threads.set(threadB, func(i *Info) { i.Status = thread.Ended })
	s.m.desks[threadB] = &desk{uploading: true}
	r, c := everything, anyone
	for _, step := range steps {
		step.mend(s, &r, &c)
		_, err := s.m.CreateUpload(t.Context(), c, r)
		if step.code == "" {
			must(t, err)
			continue
		}
		t.Run(step.name, func(t *testing.T) { wantCode(t, err, step.code, step.details...) })
	}
}

func TestCreateUploadRefusesNamesThatAreNone(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"", " ", "\t\n", ".", "..", " .. "} {
		_, err := s.m.CreateUpload(t.Context(), anyone, UploadRequest{ThreadID: threadA, Filename: name})
		wantCode(t, err, fault.InvalidInput)
	}
}

func TestCreateUploadStatuses(t *testing.T) {
	s := newScene(t)
	for _, status := range thread.Statuses {
		s.threads.set(threadA, func(i *Info) { i.Status = status })
		_, err := s.m.CreateUpload(t.Context(), anyone, UploadRequest{ThreadID: threadA, Filename: "f"})
		if over := status == thread.Stopping || status == thread.Ended; over {
			wantCode(t, err, fault.ThreadEnded, "threadId")
		} else {
			must(t, err)
		}
	}
}

func TestFiveTicketsSideBySide(t *testing.T) {
	s := newScene(t)
	var tickets []UploadTicket
	for range 5 {
		tickets = append(tickets, s.uploadTicket(threadA, "", 1))
	}
	others := s.uploadTicket(threadB, "", 1)
	s.put(tickets[0], []byte("1")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
	for _, ticket := range append(tickets[1:], others) {
		s.put(ticket, []byte("1")).expect(t, http.StatusCreated, "")
	}
	if n := len(s.visible()); n != 5 {
		t.Errorf("%d files, want 5", n)
	}
}

// An Abort between the look at a thread and the ticket must not be missed.
func TestATicketOfAThreadWhoseEndBeginsMeanwhileIsRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		after   func(m *Manager)
		code    fault.Code
		details []string
	}{
		{"end begun", func(m *Manager) { m.Abort(threadA) }, fault.ThreadEnded, []string{"threadId"}},
		{"end durable too", func(m *Manager) { m.Abort(threadA); m.Ended(threadA) }, fault.ThreadEnded, []string{"threadId"}},
		{"shutdown", func(m *Manager) { m.Close() }, fault.CoreRuntimeUnavailable, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			path := publicFile(s)
			s.threads.onAsk = func() { c.after(s.m) }
			_, err := s.m.CreateUpload(t.Context(), anyone, UploadRequest{ThreadID: threadA, Filename: "f"})
			wantCode(t, err, c.code, c.details...)
			_, err = s.m.CreateDownload(t.Context(), anyone, threadA, path)
			wantCode(t, err, c.code, c.details...)
			_, err = s.m.List(t.Context(), anyone, threadA)
			wantCode(t, err, c.code, c.details...)
		})
	}
}

func TestSafeName(t *testing.T) {
	long := strings.Repeat("é", 150)
	for name, want := range map[string]string{
		"report.pdf":                     "report.pdf",
		"../../etc/passwd":               "_.._etc_passwd",
		`C:\x\y.txt`:                     "C__x_y.txt",
		`a*?"<>|b`:                       "a______b",
		"  .. spaced .. ":                "spaced",
		"tab\tand\nnewline":              "tab_and_newline",
		"\u00a0nbsp\u3000":               "nbsp",
		"...":                            "upload",
		". .":                            "upload",
		"con":                            "upload",
		"NUL":                            "upload",
		"Com1":                           "upload",
		"LPT9":                           "upload",
		"COM10":                          "COM10",
		"con.txt":                        "con.txt",
		"CON ":                           "upload",
		"🚲":                              "🚲",
		`say "hi"`:                       "say _hi_",
		strings.Repeat("x", 300):         strings.Repeat("x", 180),
		long:                             strings.Repeat("é", 90),
		strings.Repeat("x", 179) + "é":   strings.Repeat("x", 179),
		strings.Repeat("x", 179) + "..y": strings.Repeat("x", 179),
	} {
		if got := safeName(name); got != want {
			t.Errorf("safeName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestOddNamesAreStored(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{`q"uote.txt`, "🚲.txt", strings.Repeat("n", 300), "CON", "nul", "a/b", `c:\d`} {
		ticket, err := s.m.CreateUpload(t.Context(), anyone, UploadRequest{ThreadID: threadA, Filename: name, SizeBytes: 1})
		must(t, err)
		s.put(ticket, []byte("1")).expect(t, http.StatusCreated, "")
		path := "/" + ticket.UploadID + "-" + safeName(name)
		if got := s.get(s.downloadTicket(threadA, path)); string(got.body) != "1" {
			t.Errorf("%q: read back %q", name, got.body)
		}
	}
}

func FuzzSafeName(f *testing.F) {
	for _, s := range []string{"a.txt", "../x", "CON", " . ", "\xff", strings.Repeat("é", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		safe := safeName(name)
		if !utf8.ValidString(name) {
			return // names come from JSON
		}
		if safe == "" || len(safe) > maxSafeName || !utf8.ValidString(safe) {
			t.Fatalf("safeName(%q) = %q", name, safe)
		}
		if _, err := splitPath("/upl_0000000000000000-"+safe, forUpload); err != nil {
			t.Fatalf("safeName(%q) = %q: %v", name, safe, err)
		}
		if again := safeName(safe); again != safe {
			t.Fatalf("safeName(%q) = %q, then %q", name, safe, again)
		}
	})
}
