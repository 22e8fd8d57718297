package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// browserPatience is how long one step may take: the largest moves and hashes
// 100 MiB, on a machine that may be busy.
const browserPatience = 3 * time.Minute

// largestAsset is the longest file that may be uploaded, in bytes.
const largestAsset = 100 << 20

// browser is a headless Chromium and the script that drives it.
type browser struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string // closed when the script has left
}

// fetch is what a page is to do; drive.mjs in folder browser describes it.
type fetch struct {
	Page    string            `json:"page"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers,omitzero"`
	Size    *int              `json:"size,omitzero"`
	Text    *string           `json:"text,omitzero"`
	Mode    string            `json:"mode,omitzero"`
}

// fetched is what the page saw.
type fetched struct {
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers"`
	Size     int               `json:"size"`
	Text     string            `json:"text"`
	Sent     string            `json:"sent"`     // SHA-256 of the request's body
	Received string            `json:"received"` // and of the response's
	Failed   string            `json:"failed"`   // what fetch threw; the page learns no more
}

// startBrowser starts a browser with a profile of its own; it is ended with the
// test.
func startBrowser(t *testing.T, tools browserTools) *browser {
	t.Helper()
	profile := t.TempDir()
	complaints, err := os.CreateTemp(t.TempDir(), "browser-*.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tools.node, tools.driver)
	cmd.Stderr = complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, in: in, lines: make(chan string, 1)}
	go func() {
		defer close(b.lines)
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			b.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close() // it closes the browser and leaves
		giveUp := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		for range b.lines {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the browser's driver: %v", err)
		}
		giveUp.Stop()
		if t.Failed() {
			text, _ := os.ReadFile(complaints.Name()) // best effort
			t.Logf("the browser's driver said:\n%s", clip(text))
		}
		complaints.Close()
	})
	var hello struct {
		Version string `json:"version"`
	}
	b.exchange(object{"program": tools.chromium, "profile": profile}, &hello)
	t.Logf("Chromium %s", hello.Version)
	return b
}

func (b *browser) exchange(request, answer any) {
	b.t.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		b.t.Fatal(err)
	}
	select {
	case line, ok := <-b.lines:
		if !ok {
			b.t.Fatal("the browser's driver has left")
		}
		if err := json.Unmarshal([]byte(line), answer); err != nil {
			b.t.Fatalf("%v: %q", err, line)
		}
	case <-time.After(browserPatience):
		b.t.Fatal("the browser does not answer")
	}
}

func (b *browser) fetch(f fetch) fetched {
	b.t.Helper()
	var got fetched
	b.exchange(f, &got)
	return got
}

// site serves an empty page on an origin of its own.
func site(t *testing.T) (origin string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>a page</title>")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestBrowser lets pages in a real browser move files.
func TestBrowser(t *testing.T) {
	if !*browserRun {
		t.Skip("a browser is driven only with -browser (make e2e-browser)")
	}
	tools, err := installBrowser()
	if err != nil {
		t.Skipf("no browser: %v", err)
	}
	if offline() {
		t.Log("the browser runs without any network but loopback")
	} else {
		t.Log("the browser runs with the machine's network: no namespace could be made")
	}
	d := start(t, newHome(t))
	s := &browserStage{T: t, d: d, b: startBrowser(t, tools), app: site(t), foreign: site(t), c: d.dial()}
	s.workspace = filepath.Join(filepath.Dir(d.home), "work")
	var created struct {
		ThreadID string `json:"threadId"`
	}
	s.call("create_thread", object{"provider": "opencode", "workspace": object{"path": s.workspace}}, &created)
	s.id = created.ThreadID
	s.largeFile()
	s.foreignOrigin()
	s.refusals()
	s.otherDoors()
}

// browserStage is a thread that belongs to the origin of one page, and another
// page on a foreign origin.
type browserStage struct {
	*testing.T
	d            *daemon
	b            *browser
	app, foreign string // origins
	c            *conn
	id           string
	workspace    string
}

// call makes a request in the name of the application's origin.
func (s *browserStage) call(kind string, payload, out any) {
	s.Helper()
	b, err := json.Marshal(payload)
	if err != nil {
		s.Fatal(err)
	}
	version := "1.0.0"
	if err := s.c.do(envelope{Type: kind, Payload: b, CallerOrigin: &s.app, CallerVersion: &version}, out); err != nil {
		s.Fatalf("%s: %v", kind, err)
	}
}

func (s *browserStage) uploadTicket(size int, target string) uploadTicket {
	s.Helper()
	var t uploadTicket
	s.call("create_asset_upload", object{"threadId": s.id, "filename": "f", "sizeBytes": size, "targetPath": target}, &t)
	return t
}

func (s *browserStage) downloadTicket(path string) (url, token string) {
	s.Helper()
	var t struct {
		URL   string `json:"downloadUrl"`
		Token string `json:"token"`
	}
	s.call("create_asset_download", object{"threadId": s.id, "path": path}, &t)
	return t.URL, t.Token
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// errorCode is the code in the JSON of an error.
func (f fetched) errorCode() string {
	var body struct {
		Err wireError `json:"error"`
	}
	_ = json.Unmarshal([]byte(f.Text), &body) // no JSON has no code
	return body.Err.Code
}

func (s *browserStage) largeFile() {
	s.Log("upload of 100 MiB with fetch(PUT)")
	size := largestAsset
	ticket := s.uploadTicket(size, "/large.bin")
	began := time.Now()
	up := s.b.fetch(fetch{Page: s.app, URL: ticket.URL, Method: "PUT", Headers: bearer(ticket.Token), Size: &size})
	if up.Status != http.StatusCreated || up.Text != `{"path":"/large.bin"}` {
		s.Fatalf("the upload got %d %s %s", up.Status, up.Text, up.Failed)
	}
	s.Logf("made, hashed and uploaded in %v", time.Since(began).Round(time.Millisecond))
	if got := hashOf(s.T, filepath.Join(s.workspace, ".pedelec-runtime", "assets", "large.bin")); got != up.Sent {
		s.Errorf("the file's digest is %s, the page sent %s", got, up.Sent)
	}

	s.Log("the list")
	var list struct {
		Assets []struct {
			Path string `json:"path"`
			Size int    `json:"sizeBytes"`
		} `json:"assets"`
	}
	s.call("list_assets", object{"threadId": s.id}, &list)
	if len(list.Assets) != 1 || list.Assets[0].Path != "/large.bin" || list.Assets[0].Size != largestAsset {
		s.Errorf("the list is %+v", list.Assets)
	}

	s.Log("back byte for byte")
	url, token := s.downloadTicket("/large.bin")
	down := s.b.fetch(fetch{Page: s.app, URL: url, Method: "GET", Headers: bearer(token)})
	if down.Status != http.StatusOK || down.Size != largestAsset || down.Received != up.Sent {
		s.Errorf("the download got %d, %d bytes with digest %s; sent was %s %s", down.Status, down.Size, down.Received, up.Sent, down.Failed)
	}
	headers := bearer(token)
	headers["Range"] = "bytes=10-29"
	part := s.b.fetch(fetch{Page: s.app, URL: url, Method: "GET", Headers: headers})
	if part.Status != http.StatusPartialContent || part.Size != 20 {
		s.Errorf("a range got %d, %d bytes %s", part.Status, part.Size, part.Failed)
	}
}

func hashOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *browserStage) foreignOrigin() {
	s.Log("a page of a foreign origin that has got hold of tickets")
	ticket := s.uploadTicket(3, "/mine.txt")
	text := "bad"
	if got := s.b.fetch(fetch{Page: s.foreign, URL: ticket.URL, Method: "PUT", Headers: bearer(ticket.Token), Text: &text}); got.Failed == "" {
		s.Errorf("its upload got %d %s", got.Status, got.Text)
	}
	url, token := s.downloadTicket("/large.bin")
	if got := s.b.fetch(fetch{Page: s.foreign, URL: url, Method: "GET", Headers: bearer(token)}); got.Failed == "" {
		s.Errorf("its download got %d, %d bytes", got.Status, got.Size)
	}
	text = "own"
	if got := s.b.fetch(fetch{Page: s.app, URL: ticket.URL, Method: "PUT", Headers: bearer(ticket.Token), Text: &text}); got.Status != http.StatusCreated {
		s.Errorf("afterwards the owner's upload got %d %s %s", got.Status, got.Text, got.Failed)
	}
	if got, err := os.ReadFile(filepath.Join(s.workspace, ".pedelec-runtime", "assets", "mine.txt")); string(got) != "own" {
		s.Errorf("the file holds %q, %v", got, err)
	}
}

// refusals shows that the page can read why it was refused.
func (s *browserStage) refusals() {
	s.Log("refusals that the page can read")
	ticket := s.uploadTicket(3, "/small.txt")
	tooLarge := 20 << 20
	unknown := strings.Replace(ticket.URL, ticket.ID, "upl_0123456789abcdef", 1)
	url, token := s.downloadTicket("/mine.txt")
	if err := os.Remove(filepath.Join(s.workspace, ".pedelec-runtime", "assets", "mine.txt")); err != nil {
		s.Fatal(err)
	}
	text := "abc"
	for _, tt := range []struct {
		name  string
		fetch fetch
		code  int
		says  string
	}{
		{"a wrong token", fetch{URL: ticket.URL, Method: "PUT", Headers: bearer(strings.Repeat("0", 64)), Text: &text}, http.StatusUnauthorized, "ASSET_UPLOAD_UNAUTHORIZED"},
		{"an unknown ticket", fetch{URL: unknown, Method: "PUT", Headers: bearer(ticket.Token), Text: &text}, http.StatusUnauthorized, "ASSET_UPLOAD_UNAUTHORIZED"},
		{"20 MiB with a ticket for 3 bytes", fetch{URL: ticket.URL, Method: "PUT", Headers: bearer(ticket.Token), Size: &tooLarge}, http.StatusRequestEntityTooLarge, "ASSET_UPLOAD_SIZE_MISMATCH"},
		{"a used ticket", fetch{URL: ticket.URL, Method: "PUT", Headers: bearer(ticket.Token), Text: &text}, http.StatusUnauthorized, "ASSET_UPLOAD_UNAUTHORIZED"},
		{"a file that is gone", fetch{URL: url, Method: "GET", Headers: bearer(token)}, http.StatusNotFound, "ASSET_READ_FAILED"},
	} {
		tt.fetch.Page = s.app
		got := s.b.fetch(tt.fetch)
		if got.Status != tt.code || got.errorCode() != tt.says {
			s.Errorf("%s: the page reads %d %q %s", tt.name, got.Status, got.Text, got.Failed)
			continue
		}
		s.Logf("%s: the page reads %d %s", tt.name, got.Status, got.errorCode())
	}
}

// otherDoors shows that a page finds everything else closed.
func (s *browserStage) otherDoors() {
	s.Log("everything else is closed to pages")
	for _, address := range []string{
		"http://" + s.d.info.HTTPEndpoint + "/healthz", "http://" + s.d.info.HTTPEndpoint + "/metrics",
		"http://" + s.d.info.HTTPEndpoint + "/mcp/" + s.id, "http://" + s.d.info.Endpoint + "/",
	} {
		if got := s.b.fetch(fetch{Page: s.app, URL: address, Method: "GET"}); got.Failed == "" {
			s.Errorf("%s: the page reads %d %q", address, got.Status, got.Text)
		}
	}
	// A page may send any text to any port without asking. The lines are requests.
	before := s.threads()
	lines := "\n" + `{"requestId":"1","type":"create_thread","payload":{"provider":"opencode"}}` + "\n" + fmt.Sprintf(`{"requestId":"2","type":"end_thread","payload":{"threadId":%q},"callerOrigin":%q}`, s.id, s.app) + "\n"
	got := s.b.fetch(fetch{Page: s.foreign, URL: "http://" + s.d.info.Endpoint + "/", Method: "POST", Mode: "no-cors", Text: &lines})
	if got.Failed == "" {
		s.Errorf("a POST to the port of the protocol got %d %q", got.Status, got.Text)
	}
	if after := s.threads(); after != before {
		s.Errorf("a page's POST was carried out: threads before %s, after %s", before, after)
	}
	s.d.pong()
}

// threads tells ids and statuses of all threads.
func (s *browserStage) threads() string {
	s.Helper()
	operator := s.d.operator()
	defer operator.Close()
	var list struct {
		Threads []struct {
			ID     string `json:"threadId"`
			Status string `json:"status"`
		} `json:"threads"`
	}
	if err := operator.call("list_threads", nil, &list); err != nil {
		s.Fatal(err)
	}
	return fmt.Sprint(list.Threads)
}
