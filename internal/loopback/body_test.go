package loopback

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	server := httptest.NewServer(LimitBodies(h, 50*time.Millisecond))
	t.Cleanup(server.Close)
	for name, header := range map[string]string{"of a length": "Content-Length: 1000", "in chunks": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { nc.Close() })
			if err := nc.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(nc, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", header); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(nc)
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			if answer.StatusCode != http.StatusTeapot {
				t.Errorf("the answer is %s", answer.Status)
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}
