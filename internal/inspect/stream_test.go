package inspect

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// follow opens the stream of t1 and returns what reads its next lines.
func (r *rig) follow(cookie, query string, header ...string) *bufio.Reader {
	r.Helper()
	got := r.ask("GET", "/inspect/threads/t1/events"+query, "", append(header, "Cookie", cookie)...)
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/event-stream" {
		r.Fatalf("%d %v", got.StatusCode, got.Header)
	}
	return bufio.NewReader(got.Body)
}

// until reads up to a line that holds a text and returns all of it.
func until(t *testing.T, lines *bufio.Reader, text string) string {
	t.Helper()
	var all strings.Builder
	for {
		line, err := lines.ReadString('\n')
		all.WriteString(line)
		if err != nil {
			t.Fatalf("no %q in %s: %v", text, all.String(), err)
		}
		if strings.Contains(line, text) {
			return all.String()
		}
	}
}

func wantEnd(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("not a clean end: %v", err)
	}
}

func TestAStreamTellsWhatWasAndWhatComes(t *testing.T) {
	r := newRig(t)
	r.threads.say("one")
	lines := r.follow(r.session(), "")
	got := until(t, lines, "event: snapshot")
	if want := "id: 1\nevent: thread\ndata: {\"type\":\"assistant_message\",\"text\":\"one\"}\n\nevent: snapshot\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.threads.say("two")
	got = until(t, lines, `"latestSeq":2`)
	if !strings.Contains(got, "id: 2\n") || strings.Contains(got, "id: 1\n") {
		t.Errorf("then %q", got)
	}
}

func TestAStreamBeginsWithTheLastEvents(t *testing.T) {
	r := newRig(t)
	for range history + 5 {
		r.threads.say("x")
	}
	got := until(t, r.follow(r.session(), ""), `"latestSeq"`)
	if !strings.HasPrefix(got, "id: 6\n") {
		t.Errorf("it begins with %.40q", got)
	}
}

func TestAStreamGoesOnWhereItWasCut(t *testing.T) {
	for name, header := range map[string][]string{"?after=2": nil, "?after=1": {"Last-Event-ID", "2"}} {
		r := newRig(t)
		for range 4 {
			r.threads.say("x")
		}
		got := until(t, r.follow(r.session(), name, header...), `"latestSeq"`)
		if !strings.HasPrefix(got, "id: 3\n") || strings.Count(got, "id: ") != 2 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestASilentStreamShowsThatItLives(t *testing.T) {
	r := newRig(t, func(c *Config) { c.KeepAlive = 5 * time.Millisecond })
	lines := r.follow(r.session(), "")
	until(t, lines, ": still here")
	until(t, lines, ": still here")
}

func TestStreamsEndWithTheDaemon(t *testing.T) {
	r := newRig(t)
	lines := r.follow(r.session(), "")
	until(t, lines, "event: snapshot")
	r.inspector.Close()
	wantEnd(t, lines)
	r.inspector.Close() // again: no harm
}

func TestAStreamEndsWithItsSession(t *testing.T) {
	r := newRig(t)
	lines := r.follow(r.session(), "")
	until(t, lines, "event: snapshot")
	r.pass(SessionLife)
	wantEnd(t, lines)
}

func TestAStreamEndsWithItsThread(t *testing.T) {
	r := newRig(t)
	lines := r.follow(r.session(), "")
	until(t, lines, "event: snapshot")
	r.threads.fail(fault.New(fault.ThreadNotFound, ""))
	until(t, lines, "event: gone")
	until(t, lines, "THREAD_NOT_FOUND")
	wantEnd(t, lines)
}

func TestThereAreSixteenStreams(t *testing.T) {
	r := newRig(t)
	cookie := r.session()
	for range MaxStreams {
		until(t, r.follow(cookie, ""), "event: snapshot")
	}
	if got, text := r.read("GET", "/inspect/threads/t1/events", "", "Cookie", cookie); got != http.StatusServiceUnavailable || !strings.Contains(text, "16") {
		t.Errorf("the next one: %d %s", got, text)
	}
	if got, _ := r.read("GET", "/inspect/threads/t1", "", "Cookie", cookie); got != 200 {
		t.Errorf("the rest: %d", got)
	}
}

func TestAReaderThatStallsIsCutOff(t *testing.T) {
	r := newRig(t, func(c *Config) { c.WriteTimeout = 50 * time.Millisecond })
	cookie := r.session()
	r.threads.say(strings.Repeat("x", 32<<20)) // more than the system buffers
	conn, err := net.Dial("tcp", r.host())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /inspect/threads/t1/events HTTP/1.1\r\nHost: "+r.host()+"\r\nCookie: "+cookie+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case path := <-r.served:
			if path == "/inspect/threads/t1/events" {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the stalled reader was not cut off")
		}
	}
}
