package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

// soakJob is one kind of client of the soak, which does its task over and over.
type soakJob struct {
	name    string
	clients int // at once
	task    func(*soakClient) error
}

// soakJobs are the mixed load. Each task leaves nothing behind but what retention
// has to remove.
var soakJobs = []soakJob{
	{"cycle", 4, (*soakClient).cycle},
	{"tools", 1, (*soakClient).callTools},
	{"files", 1, (*soakClient).moveFiles},
	{"reconnect", 2, (*soakClient).reconnect},
	{"cancel", 1, (*soakClient).cancelAndResume},
	{"crash", 1, (*soakClient).crashAgent},
	{"visit", 2, (*soakClient).visit},
	{"look", 1, (*soakClient).look},
	{"operate", 1, (*soakClient).operate},
}

// soakLoad is the load on one daemon.
type soakLoad struct {
	d    *daemon
	work string
	stop chan struct{} // closed when no task shall begin any more

	wg     sync.WaitGroup
	cycles atomic.Int64 // create/send/end, done
	done   atomic.Int64 // tasks of all kinds

	mu     sync.Mutex
	tasks  map[string]int // done, by job
	codes  map[string]int // error responses, by code
	failed error          // the first thing that must not happen
}

// startSoak begins the load. finish must be called.
func startSoak(d *daemon) *soakLoad {
	l := &soakLoad{
		d: d, work: filepath.Join(filepath.Dir(d.home), "work"), stop: make(chan struct{}),
		tasks: map[string]int{}, codes: map[string]int{},
	}
	for _, job := range soakJobs {
		for i := range job.clients {
			s := &soakClient{load: l, name: fmt.Sprintf("%s%d", job.name, i), rng: rand.New(rand.NewPCG(uint64(len(job.name)), uint64(i)))}
			l.wg.Go(func() { s.run(job) })
		}
	}
	return l
}

// finish lets every client end what it is at, and returns the first thing that went
// wrong.
func (l *soakLoad) finish() error {
	close(l.stop)
	l.wg.Wait()
	return l.failure()
}

func (l *soakLoad) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *soakLoad) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

// code counts an error response that may come.
func (l *soakLoad) code(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.codes[codeOf(err)]++
}

// soakClient does one task after another, most on one connection.
type soakClient struct {
	load *soakLoad
	name string
	rng  *rand.Rand
	c    *conn
	n    int // tasks begun
}

func (s *soakClient) run(job soakJob) {
	var err error
	if s.c, err = open(s.load.d.info.Endpoint); err != nil {
		s.load.fail(err)
		return
	}
	defer s.c.Close()
	s.c.token = s.load.d.info.Token
	for s.load.failure() == nil {
		select {
		case <-s.load.stop:
			return
		default:
		}
		s.n++
		if err := job.task(s); err != nil {
			s.load.fail(fmt.Errorf("%s, task %d: %w", s.name, s.n, err))
			return
		}
		s.load.done.Add(1)
		s.load.mu.Lock()
		s.load.tasks[job.name]++
		s.load.mu.Unlock()
	}
}

// may counts an error response with one of the codes and takes it for well.
func (s *soakClient) may(err error, codes ...string) error {
	if err == nil {
		return nil
	}
	for _, code := range codes {
		if codeOf(err) == code {
			s.load.code(err)
			return nil
		}
	}
	return err
}

// thread makes a thread and subscribes to it.
func (s *soakClient) thread(c *conn, more object) (id string, err error) {
	payload := object{"provider": "opencode"}
	for k, v := range more {
		payload[k] = v
	}
	var created struct {
		ThreadID string `json:"threadId"`
	}
	if err := c.call("create_thread", payload, &created); err != nil {
		return "", err
	}
	return created.ThreadID, c.call("subscribe_thread", object{"threadId": created.ThreadID}, nil)
}

// folder is a workspace of this client, used again and again.
func (s *soakClient) folder() object { return object{"path": filepath.Join(s.load.work, s.name)} }

// turn sends a text and waits for its end, which it returns.
func (s *soakClient) turn(c *conn, id, text string) (event, error) {
	if err := c.call("send_text", object{"threadId": id, "message": text}, nil); err != nil {
		return event{}, err
	}
	return completed(c)
}

func completed(c *conn) (event, error) {
	events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
	if err != nil {
		return event{}, fmt.Errorf("%w; so far %s", err, kinds(events))
	}
	return events[len(events)-1], nil
}

// succeed is turn for a text that must end well.
func (s *soakClient) succeed(c *conn, id, text string) error {
	last, err := s.turn(c, id, text)
	if err == nil && !last.Success {
		err = fmt.Errorf("%q ended with %s", text, last.raw)
	}
	return err
}

// remove ends a thread, takes its last events, and deletes it.
func (s *soakClient) remove(c *conn, id string) error {
	if err := s.end(c, id); err != nil {
		return err
	}
	return c.call("delete_thread", object{"threadId": id}, nil)
}

func (s *soakClient) end(c *conn, id string) error {
	if err := c.call("end_thread", object{"threadId": id}, nil); err != nil {
		return err
	}
	if _, err := c.until(patience, func(e event) bool { return e.Type == "status_changed" && e.Status == "ended" }); err != nil {
		return err
	}
	return c.call("unsubscribe_thread", object{"threadId": id}, nil)
}

// keepEvery is how rarely a cycle leaves its ended thread to retention.
const keepEvery = 5

// cycle is the life of most threads.
func (s *soakClient) cycle() error {
	more := object{}
	if s.rng.IntN(2) == 0 {
		more["workspace"] = s.folder()
	}
	id, err := s.thread(s.c, more)
	if err != nil {
		return err
	}
	if err := s.succeed(s.c, id, "echo hello"); err != nil {
		return err
	}
	if err := s.end(s.c, id); err != nil {
		return err
	}
	s.load.cycles.Add(1)
	if s.n%keepEvery == 0 {
		return nil
	}
	// Retention may have been quicker.
	return s.may(s.c.call("delete_thread", object{"threadId": id}, nil), "THREAD_NOT_FOUND")
}

// callTools answers calls of a page's tools, and leaves one alone.
func (s *soakClient) callTools() error {
	id, err := s.thread(s.c, object{"skills": demoTools, "workspace": s.folder()})
	if err != nil {
		return err
	}
	for text, calls := range map[string]int{`call ask {"n":1}`: 1, "call-parallel 3 ask": 3} {
		if err := s.c.call("send_text", object{"threadId": id, "message": text}, nil); err != nil {
			return err
		}
		if _, err := answerAll(s.c, id, s.name, calls); err != nil {
			return err
		}
		if last, err := completed(s.c); err != nil || !last.Success {
			return fmt.Errorf("%q ended with %s, %w", text, last.raw, err)
		}
	}
	if err := s.succeed(s.c, id, `call ask {"timeoutMs":20}`); err != nil {
		return err
	}
	return s.remove(s.c, id)
}

// soakFileBytes is the size of the files that are moved: more than one buffer.
const soakFileBytes = 300 << 10

// moveFiles uploads, downloads, and breaks an upload off.
func (s *soakClient) moveFiles() error {
	id, err := s.thread(s.c, object{"workspace": s.folder()})
	if err != nil {
		return err
	}
	content := bytes.Repeat([]byte{byte(s.n)}, soakFileBytes)
	ticket, err := s.uploadTicket(id)
	if err != nil {
		return err
	}
	if err := transfer(http.MethodPut, ticket.URL, ticket.Token, content, nil, http.StatusCreated); err != nil {
		return err
	}
	var down struct {
		URL   string `json:"downloadUrl"`
		Token string `json:"token"`
	}
	if err := s.c.call("create_asset_download", object{"threadId": id, "path": "/soak.bin"}, &down); err != nil {
		return err
	}
	if err := transfer(http.MethodGet, down.URL, down.Token, nil, content, http.StatusOK); err != nil {
		return err
	}
	if ticket, err = s.uploadTicket(id); err != nil {
		return err
	}
	if err := s.halfUpload(ticket); err != nil {
		return err
	}
	_, err = s.uploadTicket(id)                       // a ticket that nobody uses
	if err := s.may(err, "THREAD_BUSY"); err != nil { // the broken upload may not have been noticed yet
		return err
	}
	if err := s.c.call("list_assets", object{"threadId": id}, nil); err != nil {
		return err
	}
	return s.remove(s.c, id)
}

func (s *soakClient) uploadTicket(id string) (ticket uploadTicket, err error) {
	err = s.c.call("create_asset_upload", object{"threadId": id, "filename": "soak.bin", "sizeBytes": soakFileBytes, "targetPath": "/soak.bin"}, &ticket)
	return ticket, err
}

// transfer moves a file and compares what comes with want, unless that is nil.
func transfer(method, url, token string, body, want []byte, status int) error {
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := transferClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != status || want != nil && !bytes.Equal(got, want) {
		return fmt.Errorf("%s was answered %d with %d bytes: %q", method, res.StatusCode, len(got), clip(got))
	}
	return nil
}

// halfUpload sends half a file and closes.
func (s *soakClient) halfUpload(ticket uploadTicket) error {
	nc, err := net.DialTimeout("tcp", s.load.d.info.HTTPEndpoint, patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	_, err = fmt.Fprintf(nc, "PUT /uploads/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		ticket.ID, s.load.d.info.HTTPEndpoint, ticket.Token, soakFileBytes, make([]byte, soakFileBytes/2))
	return err
}

// reconnect drops its connection in a burst and goes on behind what it has, over
// TCP and WebSocket in turn.
func (s *soakClient) reconnect() error {
	connect := func() (*conn, error) {
		if s.n%2 == 0 {
			return openWeb(s.load.d.info.HTTPEndpoint, s.load.d.info.Token)
		}
		return open(s.load.d.info.Endpoint)
	}
	c, err := connect()
	if err != nil {
		return err
	}
	defer func() { c.Close() }()
	id, err := s.thread(c, object{"workspace": s.folder()})
	if err != nil {
		return err
	}
	if err := c.call("send_text", object{"threadId": id, "message": "stream 60 every 1ms"}, nil); err != nil {
		return err
	}
	left := 3 + s.rng.IntN(20) // events until the connection breaks
	seen, err := c.until(patience, func(e event) bool { left--; return left == 0 || e.Type == "operation_completed" })
	if err != nil {
		return err
	}
	last := seen[len(seen)-1]
	c.Close()
	if c, err = connect(); err != nil {
		return err
	}
	if err := c.call("subscribe_thread", object{"threadId": id, "afterSeq": last.Seq}, nil); err != nil {
		return err
	}
	if last.Type != "operation_completed" {
		rest, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
		if err != nil {
			return err
		}
		for _, e := range rest {
			if e.Seq <= last.Seq {
				return fmt.Errorf("number %d came behind number %d", e.Seq, last.Seq)
			}
			last = e
		}
	}
	return s.remove(c, id)
}

// cancelAndResume cancels a turn, ends in another, and comes back each time.
func (s *soakClient) cancelAndResume() error {
	id, err := s.thread(s.c, object{"workspace": s.folder()})
	if err != nil {
		return err
	}
	payload := object{"threadId": id}
	if err := s.c.call("send_text", object{"threadId": id, "message": "stream 3 ; hang"}, nil); err != nil {
		return err
	}
	if err := s.c.call("cancel_operation", payload, nil); err != nil {
		return err
	}
	last, err := completed(s.c)
	if err != nil {
		return err
	}
	s.load.code(asError(last.Err))
	if err := s.c.call("send_text", object{"threadId": id, "message": "stream 1000 every 5ms"}, nil); err != nil {
		return err
	}
	if err := s.end(s.c, id); err != nil {
		return err
	}
	if err := s.c.call("resume_thread", payload, nil); err != nil {
		if err := s.may(err, "THREAD_NOT_FOUND"); err != nil { // retention was quicker
			return err
		}
		return nil
	}
	if err := s.c.call("subscribe_thread", payload, nil); err != nil {
		return err
	}
	if err := s.c.call("prepare_thread", payload, nil); err != nil {
		return err
	}
	if last, err = completed(s.c); err != nil || !last.Success {
		return fmt.Errorf("the preparation ended with %s, %w", last.raw, err)
	}
	return s.remove(s.c, id)
}

// crashPause lies between two crashes of an agent: longer than the back-off, so that
// none of them is refused.
const crashPause = 5 * time.Second

// crashAgent lets the agent of the other provider die in a turn.
func (s *soakClient) crashAgent() error {
	id, err := s.thread(s.c, object{"workspace": s.folder(), "provider": "cursor"})
	if err != nil {
		return err
	}
	last, err := s.turn(s.c, id, "stream 5 ; detached ; crash")
	if err != nil {
		return err
	}
	if codeOf(asError(last.Err)) != "PROVIDER_RUNTIME_DISCONNECTED" {
		return fmt.Errorf("the crash ended with %s", last.raw)
	}
	s.load.code(asError(last.Err))
	if err := s.remove(s.c, id); err != nil {
		return err
	}
	timer := time.NewTimer(crashPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.load.stop:
	}
	return nil
}

// visit comes and goes in the ways of clients that are badly made or unlucky.
func (s *soakClient) visit() error {
	web := s.n%2 == 0
	var c *conn
	var err error
	if web {
		c, err = openWeb(s.load.d.info.HTTPEndpoint, s.load.d.info.Token)
	} else {
		c, err = open(s.load.d.info.Endpoint)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	switch s.rng.IntN(6) {
	case 0: // without a word
		return nil
	case 1: // with nonsense
		for _, line := range []string{"{}", "[1,2", `{"requestId":"x"}`, `{"requestId":"x","type":"\ud800"}`} {
			if err := c.send([]byte(line + "\n")); err != nil {
				return err
			}
			if m, err := c.next(patience); err != nil || m.Err == nil {
				return fmt.Errorf("%s was answered with %+v, %w", line, m, err)
			}
		}
		return c.call("ping", nil, nil)
	case 2: // in the middle of a line
		if web {
			return nil
		}
		return c.send([]byte(`{"requestId":"1","type":"pi`))
	case 3: // with subscriptions, in the middle of a turn
		id, err := s.thread(c, object{"workspace": s.folder(), "autoEndOnDisconnect": true})
		if err != nil {
			return err
		}
		return c.call("send_text", object{"threadId": id, "message": "stream 30 every 1ms"}, nil)
	case 4: // to the wrong door
		nc, err := net.DialTimeout("tcp", s.load.d.info.Endpoint, patience)
		if err != nil {
			return err
		}
		defer nc.Close()
		_, err = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return err
	default:
		return c.call("ping", nil, nil)
	}
}

// look reads what an operator's tools read.
func (s *soakClient) look() error {
	var list struct {
		Threads []struct {
			ThreadID string `json:"threadId"`
		} `json:"threads"`
		Next string `json:"next"`
	}
	if err := s.c.call("list_threads", object{"limit": 20}, &list); err != nil {
		return err
	}
	if list.Next != "" {
		if err := s.c.call("list_threads", object{"limit": 20, "after": list.Next}, nil); err != nil {
			return err
		}
	}
	for _, t := range list.Threads {
		for _, kind := range []string{"thread_snapshot", "read_events"} {
			if err := s.may(s.c.call(kind, object{"threadId": t.ThreadID}, nil), "THREAD_NOT_FOUND"); err != nil {
				return err
			}
		}
	}
	for _, kind := range []string{"list_runtimes", "list_providers", "get_settings", "list_origins"} {
		if err := s.c.call(kind, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// operatePause lies between two rounds of an operator's rarer deeds.
const operatePause = time.Second

// operate makes a backup, looks for agents again and opens the operator's page.
func (s *soakClient) operate() error {
	path := filepath.Join(s.load.work, "backup")
	if err := s.c.call("backup", object{"path": path}, nil); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := s.c.call("refresh_providers", nil, nil); err != nil {
		return err
	}
	var link struct {
		URL string `json:"url"`
	}
	if err := s.c.call("create_inspect_link", nil, &link); err != nil {
		return err
	}
	res, err := transferClient.Get(link.URL)
	if err != nil {
		return err
	}
	res.Body.Close()
	timer := time.NewTimer(operatePause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.load.stop:
	}
	return nil
}

// counts tells what was done and which errors were answered.
func (l *soakLoad) counts() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	tasks, err := json.Marshal(l.tasks, json.Deterministic(true))
	codes, err2 := json.Marshal(l.codes, json.Deterministic(true))
	if err := errors.Join(err, err2); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("tasks done %s; error responses and failed operations %s", strings.ReplaceAll(string(tasks), `"`, ""), strings.ReplaceAll(string(codes), `"`, ""))
}
