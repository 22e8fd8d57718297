package assets

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestAbortCutsOffAnUpload(t *testing.T) {
	for name, abort := range map[string]func(m *Manager){
		"the thread's end": func(m *Manager) { m.Abort(threadA) },
		"a shutdown":       func(m *Manager) { m.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
			s.write("old", "f")
			other := s.uploadTicket(threadA, "/g", 1)
			conn := s.beginPut(s.uploadTicket(threadA, "/f", 10), 10, "12345")
			abort(s.m)
			s.wantFiles("/f") // at once
			s.wantContent("old", "f")
			readAnswer(t, conn).expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
			s.put(other, []byte("1")).expect(t, http.StatusUnauthorized, fault.AssetUploadUnauthorized)
			if _, err := s.m.CreateUpload(t.Context(), anyone, UploadRequest{ThreadID: threadA, Filename: "f"}); err == nil {
				t.Error("a new ticket after the end")
			}
			s.m.Close() // waits for nobody
			if staged := s.threads.stagedOf(threadA); staged != "" {
				t.Errorf("the record still holds %q", staged)
			}
		})
	}
}

// TestARefusedDownloadHoldsNothing reads the refusal and then keeps the server waiting
// for a body: the end of the thread must not wait with it.
func TestARefusedDownloadHoldsNothing(t *testing.T) {
	for name, header := range map[string]string{
		"the file is gone": "",
		"no such range":    "Range: bytes=100-\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			file := s.write("content", "f")
			ticket := s.downloadTicket(threadA, "/f")
			if header == "" {
				must(t, os.Remove(file))
			}
			conn := s.dial()
			_, err := fmt.Fprintf(conn, "GET /downloads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 1\r\n%s\r\n",
				ticket.DownloadID, s.endpoint, ticket.Token, header)
			must(t, err)
			if a := readAnswer(t, conn); a.status < http.StatusBadRequest {
				t.Fatalf("answered %d", a.status)
			}
			s.m.mu.Lock()
			running := len(s.m.desks[threadA].transfers)
			s.m.mu.Unlock()
			if running != 0 {
				t.Error("the thread's end would wait for the client")
			}
			conn.Close()
		})
	}
}

func TestAbortDoesNotTouchOtherThreads(t *testing.T) {
	s := newScene(t)
	conn := s.beginPut(s.uploadTicket(threadB, "/b", 2), 2, "1")
	ticket := s.downloadTicket(threadB, publicFile(s))
	s.m.Abort(threadA)
	_, err := conn.Write([]byte("2"))
	must(t, err)
	readAnswer(t, conn).expect(t, http.StatusCreated, "")
	s.get(ticket).expect(t, http.StatusOK, "")
}

// The end of a thread waits in Stage only as long as that honours its context.
func TestAbortDuringStage(t *testing.T) {
	s := newScene(t)
	inStage := make(chan struct{})
	s.m.cfg.Threads = stageBlocks{s.threads, inStage}
	ticket := s.uploadTicket(threadA, "/f", 1)
	answered := make(chan answer, 1)
	go func() { answered <- s.put(ticket, []byte("1")) }()
	receive(t, inStage)
	s.m.Abort(threadA)
	a := receive(t, answered)
	a.expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
	s.wantFiles()
}

// stageBlocks are threads whose actor is busy with the end that aborts.
type stageBlocks struct {
	*fakeThreads
	inStage chan<- struct{}
}

func (s stageBlocks) Stage(ctx context.Context, id, name string) error {
	if name == "" {
		return s.fakeThreads.Stage(ctx, id, name)
	}
	close(s.inStage)
	<-ctx.Done()
	return ctx.Err()
}

func TestReopenAndEnded(t *testing.T) {
	s := newScene(t)
	s.m.Abort(threadA)
	_, err := s.m.CreateUpload(t.Context(), anyone, UploadRequest{ThreadID: threadA, Filename: "f"})
	wantCode(t, err, fault.ThreadEnded, "threadId")
	s.m.Reopen(threadA) // the end was refused
	s.put(s.uploadTicket(threadA, "/f", 1), []byte("1")).expect(t, http.StatusCreated, "")

	s.m.Abort(threadA)
	s.threads.set(threadA, func(i *Info) { i.Status = thread.Ended })
	s.m.Ended(threadA)
	_, err = s.m.List(t.Context(), anyone, threadA)
	wantCode(t, err, fault.ThreadEnded, "threadId")
	s.threads.set(threadA, func(i *Info) { i.Status = thread.Idle })
	s.m.Reopen(threadA) // resumed
	s.put(s.uploadTicket(threadA, "/f", 1), []byte("1")).expect(t, http.StatusCreated, "")
	s.m.Reopen("unknown")
	s.m.Ended("unknown")
}

func TestEndedThreadsCostNothing(t *testing.T) {
	s := newScene(t)
	s.write("x", "f")
	for i := range 1000 {
		id := fmt.Sprintf("t%016d", i)
		s.threads.set(id, func(info *Info) { *info = Info{Workspace: s.workspace, Status: thread.Idle} })
		s.uploadTicket(id, "/f", 1)
		s.downloadTicket(id, "/f")
		s.m.Abort(id)
		s.m.Ended(id)
	}
	if tickets, desks := s.kept(); tickets != 0 || desks != 0 {
		t.Errorf("%d tickets and %d desks are left", tickets, desks)
	}
}

func TestAFinishedUploadStays(t *testing.T) {
	s := newScene(t)
	s.put(s.uploadTicket(threadA, "/f", 1), []byte("1")).expect(t, http.StatusCreated, "")
	s.m.Abort(threadA)
	s.wantFiles("/f")
}

// Whatever moment the end takes: after Abort has returned nothing appears.
func TestNothingAppearsAfterAbort(t *testing.T) {
	s := newScene(t)
	appeared := 0
	for i := range 200 {
		path := fmt.Sprintf("/f%d", i)
		ticket := s.uploadTicket(threadA, path, 1)
		conn := s.beginPut(ticket, 1, "")
		_, err := conn.Write([]byte("1"))
		must(t, err)
		for range i % 50 { // another moment each time
			s.visible()
		}
		s.m.Abort(threadA)
		before := len(s.visible())
		status := readAnswer(t, conn).status
		if after := len(s.visible()); after != before {
			t.Fatalf("round %d: %d files at the return of Abort, %d later", i, before, after)
		}
		if there := fileExists(s.assets(path[1:])); there != (status == http.StatusCreated) {
			t.Fatalf("round %d: status %d, file there: %t", i, status, there)
		}
		appeared = before
		s.m.Reopen(threadA)
	}
	t.Logf("%d of 200 uploads were done before", appeared)
}

func fileExists(path string) bool { _, err := os.Lstat(path); return err == nil }

// many returns the ids of n threads.
func (s *scene) many(n int) []string {
	var ids []string
	for i := range n {
		id := fmt.Sprintf("t%016d", i)
		s.threads.set(id, func(info *Info) { *info = Info{Workspace: s.workspace, Status: thread.Idle} })
		ids = append(ids, id)
	}
	return ids
}

func TestSixteenUploadsAtOnceAndNoMore(t *testing.T) {
	s := newScene(t)
	ids := s.many(18)
	var conns []net.Conn
	for _, id := range ids[:16] {
		conns = append(conns, s.beginPut(s.uploadTicket(id, "/"+id, 4), 4, "ab"))
	}
	late := s.uploadTicket(ids[16], "/late", 1)
	s.put(late, []byte("1")).expect(t, http.StatusServiceUnavailable, fault.Overloaded)
	if running := s.m.count(upload); running != 16 {
		t.Errorf("%v run", running)
	}
	s.write("x", "readable")
	s.get(s.downloadTicket(ids[17], "/readable")).expect(t, http.StatusOK, "") // the other way is free
	for _, conn := range conns {
		_, err := conn.Write([]byte("cd"))
		must(t, err)
		readAnswer(t, conn).expect(t, http.StatusCreated, "")
	}
	s.put(s.uploadTicket(ids[16], "/late", 1), []byte("1")).expect(t, http.StatusCreated, "")
	if n := len(s.visible()); n != 18 {
		t.Errorf("%d files, want 18", n)
	}
}

// beginGets begins n downloads of 100 MiB that nobody reads.
func (s *scene) beginGets(n int) []net.Conn {
	s.t.Helper()
	must(s.t, os.Truncate(s.write("", "large"), MaxFileBytes))
	ticket := s.downloadTicket(threadA, "/large")
	var conns []net.Conn
	for range n {
		conn := s.dial()
		_, err := fmt.Fprintf(conn, "GET /downloads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", ticket.DownloadID, s.endpoint, ticket.Token)
		must(s.t, err)
		const statusLine = "HTTP/1.1 200 OK"
		_, err = io.ReadFull(conn, make([]byte, len(statusLine))) // it runs
		must(s.t, err)
		conns = append(conns, conn)
	}
	return conns
}

// wantCutOff checks that a connection ends before the whole file has come.
func wantCutOff(t *testing.T, conns []net.Conn) {
	t.Helper()
	for _, conn := range conns {
		if n, _ := io.Copy(io.Discard, conn); n >= MaxFileBytes {
			t.Errorf("%d bytes came", n)
		}
	}
}

// transfersOf returns what runs of a thread.
func (s *scene) transfersOf(threadID string) []*transfer {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if d := s.m.desks[threadID]; d != nil {
		return d.running()
	}
	return nil
}

// kept returns how much the Manager remembers.
func (s *scene) kept() (tickets, desks int) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return len(s.m.tickets), len(s.m.desks)
}

func TestSixteenDownloadsAtOnceAndNoMore(t *testing.T) {
	s := newScene(t)
	s.write("small", "small")
	conns := s.beginGets(16)
	small := s.downloadTicket(threadB, "/small")
	s.get(small).expect(t, http.StatusServiceUnavailable, fault.Overloaded)
	s.put(s.uploadTicket(threadA, "/up", 1), []byte("1")).expect(t, http.StatusCreated, "") // the other way is free
	s.m.Abort(threadA)
	if left := s.transfersOf(threadA); len(left) != 0 {
		t.Errorf("%d transfers go on after Abort", len(left))
	}
	wantCutOff(t, conns)
	s.get(small).expect(t, http.StatusOK, "")
}

func TestDownloadersThatNeverReadAreCutOff(t *testing.T) {
	s := newScene(t, func(c *Config) { c.IdleTimeout = 300 * time.Millisecond })
	conns := s.beginGets(16)
	for _, run := range s.transfersOf(threadA) {
		receive(t, run.released)
	}
	wantCutOff(t, conns)
	s.write("small", "small")
	s.get(s.downloadTicket(threadA, "/small")).expect(t, http.StatusOK, "")
}

// A connection that was kept alive serves its next request after its transfer
// was cut off or is long over.
func TestAStopOfADoneTransferTouchesNoConnection(t *testing.T) {
	s := newScene(t)
	ticket := s.uploadTicket(threadA, "/f", 1)
	run, err := s.m.redeem(upload, ticket.UploadID, ticket.Token)
	must(t, err)
	run.release()
	run.stop()
	run.finish()
	if err := run.awaitBody(); err == nil {
		t.Error("a transfer goes on after its stop")
	}
}

// A browser sends its whole body before it reads the answer.
func TestRefusedBodiesAreReadToTheirEnd(t *testing.T) {
	const clients, size = 30, 20 << 20
	s := newScene(t)
	ids := s.many(clients)
	body := strings.Repeat("x", size)
	var wg sync.WaitGroup
	for _, id := range ids {
		ticket := s.uploadTicket(id, "", 1)
		conn := s.dial()
		wg.Go(func() {
			_, err := fmt.Fprintf(conn, "PUT /uploads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", ticket.UploadID, s.endpoint, ticket.Token, size)
			if err == nil {
				_, err = io.WriteString(conn, body)
			}
			if err != nil {
				t.Errorf("the body could not be sent: %v", err)
				return
			}
			readAnswer(t, conn).expect(t, http.StatusRequestEntityTooLarge, fault.AssetUploadSizeMismatch)
		})
	}
	wg.Wait()
}

// What a page puts into a body must never stand as a request of its own, without
// the Origin that its browser adds.
func TestTheRestOfARefusedBodyIsNoRequest(t *testing.T) {
	s := newScene(t, func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
	conn := s.dial()
	_, err := fmt.Fprintf(conn, "PUT /uploads/upl_none HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", s.endpoint)
	must(t, err)
	answers := bufio.NewReader(conn)
	refused, err := http.ReadResponse(answers, nil)
	must(t, err)
	_, err = io.Copy(io.Discard, refused.Body)
	must(t, err)
	if _, err := answers.ReadByte(); err != io.EOF { // it comes when the time for the rest is over
		t.Fatalf("the connection is not closed behind a body that does not come: %v", err)
	}
}

func TestOnlySoMuchOfARefusedBodyIsRead(t *testing.T) {
	s := newScene(t, func(c *Config) { c.DrainBytes = 1 << 20; c.DrainTimeout = 100 * time.Millisecond })
	for name, send := range map[string]int{"too much": 64 << 20, "nothing": 0} {
		ticket := s.uploadTicket(threadA, "/f", 1)
		conn := s.dial()
		_, err := fmt.Fprintf(conn, "PUT /uploads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", ticket.UploadID, s.endpoint, ticket.Token, 64<<20)
		must(t, err)
		sent, _ := io.WriteString(conn, strings.Repeat("x", send))
		if _, err := io.Copy(io.Discard, conn); err != nil && send == 0 {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
		if send > 0 && sent == send {
			t.Errorf("%s: all %d bytes were taken", name, sent)
		}
	}
}
