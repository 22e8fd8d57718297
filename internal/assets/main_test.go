package assets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/leak"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
)

const (
	threadA = "t0123456789abcdef"
	threadB = "tzzzzzzzzzzzzzzzz"
	appPage = "https://app.example"

	// patience bounds every wait for something that must happen.
	patience = 20 * time.Second
)

// childEnv makes the test binary run a part of a test as a child process
// instead of the tests.
const childEnv = "ASSETS_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		if err := fault.Arm(os.Getenv(fault.PointsEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(childParts[part]())
	}
	leak.VerifyTestMain(m)
}

// anyone is a caller without an origin.
var anyone thread.Caller

// fakeThreads are threads in memory.
type fakeThreads struct {
	mu     sync.Mutex
	info   map[string]Info
	staged map[string]string // what the records hold
	err    error             // of the next Stage calls with a name
	onAsk  func()            // called while Thread is asked
	begun  chan string       // gets the name of each upload that begins
}

func (f *fakeThreads) Thread(_ context.Context, c thread.Caller, id string) (Info, error) {
	f.mu.Lock()
	info, known := f.info[id]
	onAsk := f.onAsk
	f.mu.Unlock()
	if onAsk != nil {
		onAsk()
	}
	if !known {
		return Info{}, fault.New(fault.ThreadNotFound, "").With("threadId", id)
	}
	if !c.MayActOn(info.Owner) {
		return Info{}, fault.New(fault.ThreadAccessDenied, "").With("threadId", id)
	}
	return info, nil
}

func (f *fakeThreads) Stage(ctx context.Context, id, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if name != "" && f.err != nil {
		return f.err
	}
	f.staged[id] = name
	if name != "" && f.begun != nil {
		f.begun <- name
	}
	return nil
}

func (f *fakeThreads) set(id string, change func(*Info)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info := f.info[id]
	change(&info)
	f.info[id] = info
}

func (f *fakeThreads) stagedOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.staged[id]
}

// scene is a Manager behind a real server, with two threads in one workspace:
// threadA, which nobody owns, and threadB of appPage.
type scene struct {
	t         testing.TB
	m         *Manager
	threads   *fakeThreads
	workspace string
	endpoint  string
	client    *http.Client

	mu  sync.Mutex
	now time.Time
}

func newScene(t testing.TB, set ...func(*Config)) *scene {
	t.Helper()
	workspace, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return newSceneAt(t, workspace, set...)
}

func newSceneAt(t testing.TB, workspace string, set ...func(*Config)) *scene {
	t.Helper()
	s := &scene{t: t, workspace: workspace, now: time.Now()}
	s.threads = &fakeThreads{
		info: map[string]Info{
			threadA: {Workspace: workspace, Status: thread.Idle},
			threadB: {Workspace: workspace, Status: thread.Idle, Owner: appPage},
		},
		staged: map[string]string{},
		begun:  make(chan string, 100),
	}
	cfg := Config{Threads: s.threads, Now: s.clock, HTTPEndpoint: func() string { return s.endpoint }}
	for _, f := range set {
		f(&cfg)
	}
	s.m = New(cfg)
	s.endpoint = serve(t, s.m)
	transport := &http.Transport{DisableKeepAlives: false, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport, Timeout: time.Minute}
	return s
}

// serve runs the handlers on a listener of their own until the test is over.
func serve(t testing.TB, m *Manager) (endpoint string) {
	t.Helper()
	l, err := loopback.Listen(t.Context(), "127.0.0.1:0", loopback.Options{})
	must(t, err)
	var connections sync.WaitGroup // the server does not wait for them
	server := &http.Server{
		Handler:           m.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    loopback.MaxHeaderBytes,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed:
				connections.Done()
			}
		},
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() {
		m.Close()
		_ = server.Close()
		<-done
		connections.Wait()
	})
	return l.Addr().String()
}

func (s *scene) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// pass moves the clock.
func (s *scene) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// assets returns a path in the assets folder.
func (s *scene) assets(names ...string) string {
	return filepath.Join(append([]string{s.workspace, ".pedelec-runtime", "assets"}, names...)...)
}

// put writes a file into the assets folder.
func (s *scene) write(content string, names ...string) string {
	s.t.Helper()
	path := s.assets(names...)
	must(s.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(s.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// callerOf returns who may use a thread.
func callerOf(threadID string) thread.Caller {
	if threadID == threadB {
		return thread.Caller{Origin: appPage, OriginStated: true}
	}
	return anyone
}

// uploadTicket makes a ticket for a public path, "" for one of the daemon's.
func (s *scene) uploadTicket(threadID, target string, size int) UploadTicket {
	s.t.Helper()
	r := UploadRequest{ThreadID: threadID, Filename: "file.txt", SizeBytes: uint64(size)}
	if target != "" {
		r.TargetPath = &target
	}
	ticket, err := s.m.CreateUpload(s.t.Context(), callerOf(threadID), r)
	must(s.t, err)
	return ticket
}

func (s *scene) downloadTicket(threadID, path string) DownloadTicket {
	s.t.Helper()
	ticket, err := s.m.CreateDownload(s.t.Context(), callerOf(threadID), threadID, path)
	must(s.t, err)
	return ticket
}

// answer is what a request came to.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request; header is a list of names and values.
func (s *scene) do(method, url string, body io.Reader, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, body)
	must(s.t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := s.client.Do(r)
	must(s.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(s.t, err)
	return answer{resp.StatusCode, resp.Header, data}
}

// put uploads a body with a ticket.
func (s *scene) put(t UploadTicket, body []byte, header ...string) answer {
	s.t.Helper()
	return s.do("PUT", t.UploadURL, bytes.NewReader(body), append([]string{"Authorization", "Bearer " + t.Token}, header...)...)
}

func (s *scene) get(t DownloadTicket, header ...string) answer {
	s.t.Helper()
	return s.do("GET", t.DownloadURL, nil, append([]string{"Authorization", "Bearer " + t.Token}, header...)...)
}

// dial opens a connection to the server, on which at most patience is spent.
func (s *scene) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.endpoint)
	must(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	must(s.t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// beginPut sends the head of an upload and part of its body, and returns when
// the upload runs.
func (s *scene) beginPut(t UploadTicket, length int, part string) net.Conn {
	s.t.Helper()
	conn := s.dial()
	_, err := fmt.Fprintf(conn, "PUT /uploads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		t.UploadID, s.endpoint, t.Token, length, part)
	must(s.t, err)
	receive(s.t, s.threads.begun)
	return conn
}

// expect checks status, and of an error its code and form.
func (a answer) expect(t testing.TB, status int, code fault.Code) {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Vary": "Origin"} {
		if got := a.header.Get(name); got != want && a.status != http.StatusMisdirectedRequest {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if code == "" {
		return
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("the error is of type %q", got)
	}
	var body struct {
		Error struct {
			Code    fault.Code     `json:"code"`
			Message string         `json:"message"`
			Details map[string]any `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal(a.body, &body, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	if body.Error.Code != code || body.Error.Message == "" {
		t.Errorf("error %+v, want %s", body.Error, code)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
	panic("unreachable")
}

func wantCode(t testing.TB, err error, code fault.Code, details ...string) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	if e.Message() == "" {
		t.Error("the message is empty")
	}
	if len(e.Details) != len(details) {
		t.Errorf("details %v, want %v", e.Details, details)
	}
	for _, key := range details {
		if _, ok := e.Details[key]; !ok {
			t.Errorf("details %v, want %v", e.Details, details)
		}
	}
}

// visible returns the public paths of all regular files in the assets folder,
// temporary ones included.
func (s *scene) visible() []string {
	s.t.Helper()
	var found []string
	err := filepath.WalkDir(s.assets(), func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && e.Type().IsRegular() {
			rel, _ := filepath.Rel(s.assets(), path)
			found = append(found, "/"+filepath.ToSlash(rel))
		}
		return err
	})
	must(s.t, err)
	return found
}

func (s *scene) wantFiles(want ...string) {
	s.t.Helper()
	if got := s.visible(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("the folder holds %q, want %q", got, want)
	}
}

func (s *scene) wantContent(content string, names ...string) {
	s.t.Helper()
	got, err := os.ReadFile(s.assets(names...))
	must(s.t, err)
	if string(got) != content {
		s.t.Errorf("%v holds %d bytes %.40q, want %d bytes", names, len(got), got, len(content))
	}
}

// arm arms failpoints for one test.
func arm(t *testing.T, spec string) {
	t.Helper()
	must(t, fault.Arm(spec))
	t.Cleanup(func() { _ = fault.Arm("") })
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
