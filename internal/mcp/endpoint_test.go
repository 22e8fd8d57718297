package mcp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func TestWhoMayComeIn(t *testing.T) {
	s := newStand(t, nil)
	url, secret := s.openThread("t1")
	_, other := s.openThread("t2")
	ended, gone := s.openThread("t3")
	s.manager.Close("t3")
	_, void := s.openThread("t4")
	again, _ := s.openThread("t4")
	host := strings.TrimPrefix(s.server.URL, "http://")
	if secret == other || len(secret) != len(secretPrefix)+64 {
		t.Fatalf("secrets %q and %q", secret, other)
	}
	tests := []struct {
		name   string
		url    string
		header []string
		want   int
	}{
		{"the secret", url, []string{"Authorization", "Bearer " + secret}, 200},
		{"the scheme in small letters", url, []string{"Authorization", "bearer  " + secret}, 200},
		{"no secret", url, nil, 401},
		{"an empty secret", url, []string{"Authorization", "Bearer "}, 401},
		{"a part of the secret", url, []string{"Authorization", "Bearer " + secret[:63]}, 401},
		{"another scheme", url, []string{"Authorization", "Basic " + secret}, 401},
		{"the secret of another thread", url, []string{"Authorization", "Bearer " + other}, 401},
		{"the secret in the URL", url + "?secret=" + secret, nil, 401},
		{"an unknown thread", s.server.URL + "/mcp/nobody", []string{"Authorization", "Bearer " + secret}, 401},
		{"an unknown thread without a secret", s.server.URL + "/mcp/nobody", []string{"Authorization", "Bearer "}, 401},
		{"a very long thread id", s.server.URL + "/mcp/" + strings.Repeat("t", 5000), []string{"Authorization", "Bearer " + secret}, 401},
		{"an address that ended", ended, []string{"Authorization", "Bearer " + gone}, 401},
		{"a secret that was replaced", again, []string{"Authorization", "Bearer " + void}, 401},
		{"a page", url, []string{"Authorization", "Bearer " + secret, "Origin", "https://a.example"}, 403},
		{"a page of our own", url, []string{"Authorization", "Bearer " + secret, "Origin", s.server.URL}, 403},
		{"a page without the secret", url, []string{"Origin", "https://a.example"}, 403},
		{"another host", url, []string{"Authorization", "Bearer " + secret, "Host", "evil.example"}, 421},
		{"localhost", url, []string{"Authorization", "Bearer " + secret, "Host", strings.Replace(host, "127.0.0.1", "localhost", 1)}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, answer := s.post(tt.url, hello, tt.header...)
			if status != tt.want {
				t.Errorf("status %d (%s), want %d", status, answer, tt.want)
			}
			if tt.want == 401 && answer != "The address or its secret is not valid.\n" {
				t.Errorf("a refusal tells %q", answer)
			}
		})
	}
	for _, word := range []string{secret, other, gone, void} {
		if strings.Contains(s.log.String(), word) {
			t.Error("a secret is in the log")
		}
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	s := newStand(t, nil)
	url, secret := s.openThread("t1")
	auth := []string{"Authorization", "Bearer " + secret}
	for name, tt := range map[string]struct {
		body   string
		header []string
		want   int
	}{
		"no JSON":               {`{`, nil, 400},
		"nothing":               {``, nil, 400},
		"several messages":      {`[` + hello + `]`, nil, 400},
		"a name twice":          {`{"id":1,"id":2}`, nil, 400},
		"a very long id":        {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`, nil, 400},
		"too long":              {`{"x":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413},
		"an unknown session":    {hello, []string{"Mcp-Session-Id", "x"}, 404},
		"a version of tomorrow": {hello, []string{"Mcp-Protocol-Version", "2020-01-01"}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			if status, answer := s.post(url, tt.body, append(auth, tt.header...)...); status != tt.want {
				t.Errorf("status %d (%s), want %d", status, answer, tt.want)
			}
		})
	}
}

func TestAMessageThatStallsIsNotWaitedForAfterItsRefusal(t *testing.T) {
	s := newStand(t, func(d *Durations) { d.IO = 50 * time.Millisecond })
	url, secret := s.openThread("t1")
	host := strings.TrimPrefix(s.server.URL, "http://")
	nc, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{",
		strings.TrimPrefix(url, s.server.URL), host, secret)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(nc); err != nil || !bytes.Contains(answer, []byte("413 ")) {
		t.Errorf("answer %q, then %v", answer, err)
	}
}

func TestAnAddressHasSoManySessionsAtMost(t *testing.T) {
	s := newStand(t, nil)
	url, secret := s.openThread("t1")
	first := s.client(url, secret, nil)
	for range maxSessions - 1 {
		s.client(url, secret, nil)
	}
	if _, err := s.connect(url, secret, nil); err == nil {
		t.Fatal("one more session was opened")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	s.call(s.client(url, secret, nil), "paint", nil)
	_, otherSecret := s.openThread("t2")
	s.call(s.client(s.server.URL+"/mcp/t2", otherSecret, nil), "paint", nil)
}

func TestAllSessionsOfAnAddressMayOpenAtOnce(t *testing.T) {
	s := newStand(t, nil)
	url, secret := s.openThread("t1")
	var opening sync.WaitGroup
	for range maxSessions {
		opening.Go(func() {
			if status, answer := s.post(url, hello, "Authorization", "Bearer "+secret); status != 200 {
				t.Errorf("status %d (%s)", status, answer)
			}
		})
	}
	opening.Wait()
	if status, _ := s.post(url, hello, "Authorization", "Bearer "+secret); status != 503 {
		t.Errorf("status %d for one session more", status)
	}
}

func TestARequestThatOpensNoSessionCountsNoLongerThanItLasts(t *testing.T) {
	s := newStand(t, nil)
	url, secret := s.openThread("t1")
	for range 2 * maxSessions {
		if status, _ := s.post(url, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer "+secret); status == 503 {
			t.Fatal("a session that was never opened is counted")
		}
	}
}

func TestASessionWithoutRequestsIsClosed(t *testing.T) {
	s := newStand(t, func(d *Durations) { d.Idle = 10 * time.Millisecond })
	url, secret := s.openThread("t1")
	if status, answer := s.post(url, hello, "Authorization", "Bearer "+secret); status != 200 {
		t.Fatalf("status %d (%s)", status, answer)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for session := range s.manager.endpoint("t1").server.Sessions() {
			_ = session.Wait()
		}
	}()
	within(t, ended, "the end of the session")
}

func TestTheAddressesOfManyThreadsEndTogether(t *testing.T) {
	s := newStand(t, nil)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		s.call(s.client(s.reach(id)), "paint", map[string]any{"from": id})
	}
	s.manager.Shutdown()
	for _, r := range s.made() {
		if want := `{"from":"` + r.ThreadID + `"}`; string(r.Args) != want {
			t.Errorf("thread %s got %s", r.ThreadID, r.Args)
		}
	}
}

func TestAWriteGetsATimeToBeTaken(t *testing.T) {
	wire := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	w := &patientWriter{ResponseWriter: wire, wire: http.NewResponseController(wire), patience: time.Minute}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(wire.write); left <= 0 || left > time.Minute {
		t.Errorf("the write has %v", left)
	}
	if err := http.NewResponseController(w).Flush(); err != nil || !wire.Flushed {
		t.Errorf("not flushed: %v", err)
	}
}

type deadlines struct {
	*httptest.ResponseRecorder
	write time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = t
	return nil
}

// FuzzMessageID reads any body; what it takes has an id that is JSON of a bounded
// size, as it is written there.
func FuzzMessageID(f *testing.F) {
	for _, body := range []string{hello, `{"id":"x"}`, `{"id":null}`, `[{"id":1}]`, ` {"id" : 1e9 } `, `{"id":1}{"id":2}`, `"id"`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		id, refusal := messageID(body)
		if refusal != "" && id != "" {
			t.Errorf("%q is refused and has the id %q", body, id)
		}
		if len(id) > maxRPCIDBytes || id != "" && (!jsontext.Value(id).IsValid() || !bytes.Contains(body, []byte(id))) {
			t.Errorf("%q has the id %q", body, id)
		}
	})
}
