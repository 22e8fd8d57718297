package e2e

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

	"github.com/go-json-experiment/json"
)

// uploadTicket is the result of create_asset_upload.
type uploadTicket struct {
	ID      string `json:"uploadId"`
	URL     string `json:"uploadUrl"`
	Token   string `json:"token"`
	Expires int64  `json:"expiresAt"` // Unix ms
}

// desk is a thread and the connection on which its page asks for transfers.
type desk struct {
	t      testing.TB
	d      *daemon
	c      *conn
	id     string
	assets string // the folder
}

func newDesk(t testing.TB, d *daemon, name string) *desk {
	t.Helper()
	k := &desk{t: t, d: d, c: d.dial()}
	workspace := filepath.Join(filepath.Dir(d.home), "work", name)
	k.assets = filepath.Join(workspace, ".pedelec-runtime", "assets")
	var created struct {
		ThreadID string `json:"threadId"`
	}
	k.must(k.c.call("create_thread", object{"provider": "opencode", "workspace": object{"path": workspace}}, &created))
	k.id = created.ThreadID
	return k
}

func (k *desk) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *desk) ticket(size int) uploadTicket {
	k.t.Helper()
	var ticket uploadTicket
	k.must(k.c.call("create_asset_upload", object{"threadId": k.id, "filename": "f.bin", "sizeBytes": size, "targetPath": "/f.bin"}, &ticket))
	return ticket
}

// begin sends the head of an upload and the beginning of its body.
func (k *desk) begin(ticket uploadTicket, size int, body []byte) net.Conn {
	k.t.Helper()
	nc, err := net.Dial("tcp", k.d.info.HTTPEndpoint)
	k.must(err)
	k.t.Cleanup(func() { nc.Close() })
	k.must(nc.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(nc, "PUT /uploads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", ticket.ID, k.d.info.HTTPEndpoint, ticket.Token, size)
	k.must(err)
	_, err = nc.Write(body)
	k.must(err)
	return nc
}

// half begins an upload, sends half of it and waits until it is being written.
func (k *desk) half(size int) net.Conn {
	k.t.Helper()
	nc := k.begin(k.ticket(size), size, make([]byte, size/2))
	k.must(waitFor(patience, "the upload to be written", func() (bool, error) {
		for _, name := range k.files() {
			if strings.HasPrefix(name, ".pedelec-") {
				info, err := os.Stat(filepath.Join(k.assets, name))
				return err == nil && info.Size() > 0, nil
			}
		}
		return false, nil
	}))
	return nc
}

// downloadBytes is more than the buffers of a connection take.
const downloadBytes = 32 << 20

// download begins to download a file of zeroes; nothing of it is read yet.
func (k *desk) download(size int64) *http.Response {
	k.t.Helper()
	path := filepath.Join(k.assets, "f.bin")
	k.must(os.MkdirAll(k.assets, 0o700))
	k.must(os.WriteFile(path, nil, 0o600))
	k.must(os.Truncate(path, size))
	var ticket struct {
		URL   string `json:"downloadUrl"`
		Token string `json:"token"`
	}
	k.must(k.c.call("create_asset_download", object{"threadId": k.id, "path": "/f.bin"}, &ticket))
	req, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, ticket.URL, nil)
	k.must(err)
	req.Header.Set("Authorization", "Bearer "+ticket.Token)
	res, err := transferClient.Do(req)
	k.must(err)
	k.t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		k.t.Fatalf("the download got %s", res.Status)
	}
	return res
}

// files returns the names in the assets folder, hidden ones too.
func (k *desk) files() []string {
	entries, err := os.ReadDir(k.assets)
	if err != nil {
		return nil // not made yet
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// list returns the public paths.
func (k *desk) list() []string {
	k.t.Helper()
	var r struct {
		Assets []struct {
			Path string `json:"path"`
		} `json:"assets"`
	}
	k.must(k.c.call("list_assets", object{"threadId": k.id}, &r))
	var paths []string
	for _, a := range r.Assets {
		paths = append(paths, a.Path)
	}
	return paths
}

// httpAnswer is what a transfer was answered with.
type httpAnswer struct {
	status int
	code   string // of the error body
}

// readAnswer reads an answer from a connection; the zero answer when it was closed.
func readAnswer(nc net.Conn) httpAnswer {
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return httpAnswer{}
	}
	defer res.Body.Close()
	return toAnswer(res)
}

func toAnswer(res *http.Response) httpAnswer {
	var body struct {
		Err wireError `json:"error"`
	}
	b, err := io.ReadAll(res.Body)
	if err == nil {
		_ = json.Unmarshal(b, &body) // a body without an error has no code
	}
	return httpAnswer{res.StatusCode, body.Err.Code}
}

// put makes a whole upload.
func (k *desk) put(ticket uploadTicket, body []byte) (httpAnswer, error) {
	req, err := http.NewRequestWithContext(k.t.Context(), http.MethodPut, ticket.URL, bytes.NewReader(body))
	if err != nil {
		return httpAnswer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+ticket.Token)
	res, err := transferClient.Do(req)
	if err != nil {
		return httpAnswer{}, err
	}
	defer res.Body.Close()
	return toAnswer(res), nil
}

// uploadBytes is the size of most uploads here: more than one buffer.
const uploadBytes = 1 << 20

func TestUploadStopsWithItsThread(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	k := newDesk(t, d, "a")
	nc := k.half(uploadBytes)
	k.must(k.c.call("end_thread", object{"threadId": k.id}, nil))
	if names := k.files(); len(names) != 0 {
		t.Errorf("after the end there is %v", names)
	}
	_, _ = nc.Write(make([]byte, uploadBytes/2)) // too late, whether it is taken or not
	if got := readAnswer(nc); got.status == http.StatusCreated {
		t.Error("the upload was told to have succeeded")
	}
	if names := k.files(); len(names) != 0 {
		t.Errorf("after the rest was sent there is %v", names)
	}
	t.Log("the thread comes back and takes uploads again")
	k.must(k.c.call("resume_thread", object{"threadId": k.id}, nil))
	if got, err := k.put(k.ticket(3), []byte("new")); err != nil || got.status != http.StatusCreated {
		t.Errorf("the next upload got %+v, %v", got, err)
	}
}

func TestUploadOfADaemonThatLeavesOrDies(t *testing.T) {
	t.Parallel()
	t.Run("killed in the middle", func(t *testing.T) {
		t.Parallel()
		d := start(t, newHome(t))
		k := newDesk(t, d, "a")
		k.half(uploadBytes)
		d.kill()
		if names := k.files(); len(names) != 1 || !strings.HasPrefix(names[0], ".pedelec-") {
			t.Fatalf("the crash left %v; a partial file may have no other name", names)
		}
		k.restarted(false)
	})
	t.Run("stopped in the middle", func(t *testing.T) {
		t.Parallel()
		d := start(t, newHome(t))
		k := newDesk(t, d, "a")
		k.half(uploadBytes)
		began := time.Now()
		if code, err := d.stop(); err != nil || code != 0 {
			t.Errorf("it left with %d: %v", code, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v to leave", took)
		}
		if names := k.files(); len(names) != 0 {
			t.Errorf("it left %v", names)
		}
		k.restarted(false)
	})
	for _, tt := range []struct {
		point string
		whole bool // the file is there
	}{
		{"assets.upload.staged=kill", false},
		{"assets.upload.chunk=kill", false},
		{"assets.upload.written=kill", false},
		{"assets.upload.renamed=kill", true},
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			d := start(t, newHome(t), "PEDELEC_FAILPOINTS="+tt.point)
			k := newDesk(t, d, "a")
			if got, err := k.put(k.ticket(uploadBytes), make([]byte, uploadBytes)); err == nil {
				t.Fatalf("the upload was answered with %+v", got)
			}
			<-d.exited
			k.restarted(tt.whole)
		})
	}
}

// restarted starts the daemon again and checks that the thread's file is there as a
// whole or not at all, and nothing else.
func (k *desk) restarted(whole bool) {
	k.t.Helper()
	k.d = start(k.t, k.d.home)
	k.c = k.d.dial()
	listed := k.list()
	k.must(waitFor(patience, "the temporary file to be gone", func() (bool, error) {
		for _, name := range k.files() {
			if strings.HasPrefix(name, ".pedelec-") {
				return false, nil
			}
		}
		return true, nil
	}))
	info, err := os.Stat(filepath.Join(k.assets, "f.bin"))
	switch {
	case whole && (err != nil || info.Size() != uploadBytes || len(listed) != 1):
		k.t.Errorf("the file is not there whole: %v, listed %v", err, listed)
	case !whole && (len(k.files()) != 0 || len(listed) != 0):
		k.t.Errorf("there is %v, listed %v", k.files(), listed)
	}
	if got, err := k.put(k.ticket(uploadBytes), make([]byte, uploadBytes)); err != nil || got.status != http.StatusCreated {
		k.t.Errorf("the next upload got %+v, %v", got, err)
	}
}

func TestStalledUploadIsGivenUp(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), "PEDELEC_DURATIONS=transfer-idle=200ms")
	k := newDesk(t, d, "a")
	nc := k.begin(k.ticket(uploadBytes), uploadBytes, make([]byte, uploadBytes/2))
	if got := readAnswer(nc); got != (httpAnswer{http.StatusBadRequest, "ASSET_UPLOAD_FAILED"}) {
		t.Errorf("a stalled upload got %+v", got)
	}
	if names := k.files(); len(names) != 0 {
		t.Errorf("there is %v", names)
	}
	if got, err := k.put(k.ticket(3), []byte("new")); err != nil || got.status != http.StatusCreated {
		t.Errorf("the next upload got %+v, %v", got, err)
	}
}

func TestTicketsExpire(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t), "PEDELEC_DURATIONS=ticket-life=1ms")
	k := newDesk(t, d, "a")
	ticket := k.ticket(3)
	k.must(waitFor(patience, "the ticket to expire", func() (bool, error) { return time.Now().UnixMilli() > ticket.Expires, nil }))
	if got, err := k.put(ticket, []byte("abc")); err != nil || got != (httpAnswer{http.StatusGone, "ASSET_UPLOAD_TICKET_EXPIRED"}) {
		t.Errorf("an old ticket got %+v, %v", got, err)
	}
	ticket.Token = strings.Repeat("0", 64)
	if got, err := k.put(ticket, []byte("abc")); err != nil || got != (httpAnswer{http.StatusUnauthorized, "ASSET_UPLOAD_UNAUTHORIZED"}) {
		t.Errorf("an old ticket with a wrong token got %+v, %v", got, err)
	}
}

// maxUploads is how many uploads may run at once.
const maxUploads = 16

func TestUploadsOverTheLimitAreRefusedReadably(t *testing.T) {
	t.Parallel()
	d := start(t, newHome(t))
	var running []net.Conn
	for i := range maxUploads {
		running = append(running, newDesk(t, d, fmt.Sprint("w", i)).half(uploadBytes))
	}
	one := newDesk(t, d, "one-more")
	if got, err := one.put(one.ticket(uploadBytes), make([]byte, uploadBytes)); err != nil || got != (httpAnswer{http.StatusServiceUnavailable, "OVERLOADED"}) {
		t.Errorf("one more got %+v, %v", got, err)
	}
	for _, nc := range running {
		if _, err := nc.Write(make([]byte, uploadBytes/2)); err != nil {
			t.Fatal(err)
		}
		if got := readAnswer(nc); got.status != http.StatusCreated {
			t.Errorf("one of %d got %+v", maxUploads, got)
		}
	}
	if got, err := one.put(one.ticket(3), []byte("new")); err != nil || got.status != http.StatusCreated {
		t.Errorf("the next upload got %+v, %v", got, err)
	}
}
