package ipc

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// TestWhoGetsAWebSocket crosses Host, Origin and token over real handshakes. 101
// is a WebSocket; a page's token makes no difference.
func TestWhoGetsAWebSocket(t *testing.T) {
	r := newRig(t)
	r.dialWeb(t, native()) // starts the HTTP server
	addr := strings.TrimPrefix(r.web.URL, "http://")
	_, port, _ := net.SplitHostPort(addr)

	hosts := map[string]bool{
		addr: true, "localhost:" + port: true,
		"127.0.0.1": false, "127.0.0.1:1": false, "rebound.example:" + port: false, "[::1]:" + port: false,
	}
	origins := []struct {
		origin                  string // "-" = none
		withToken, withoutToken int
	}{
		{"-", 101, 401},
		{"https://a.example", 101, 101},
		{"http://" + addr, 101, 101},
		{"http://rebound.example:" + port, 101, 101}, // as a stranger
		{"chrome-extension://abcdefghijklmnopabcdefghijklmnop", 101, 101},
		{"null", 403, 403},
		{"", 403, 403},
		{"file://", 403, 403},
		{"https://a.example/path", 403, 403},
	}
	tokens := map[string]bool{"Bearer " + testToken: true, "bearer " + testToken: true, "": false, "Bearer": false, "Bearer wrong": false, testToken: false, "Basic " + testToken: false}
	for host, rightHost := range hosts {
		for _, o := range origins {
			for token, rightToken := range tokens {
				want := o.withoutToken
				if rightToken {
					want = o.withToken
				}
				if !rightHost {
					want = http.StatusMisdirectedRequest
				}
				header := http.Header{"Host": {host}}
				if o.origin != "-" {
					header["Origin"] = []string{o.origin}
				}
				if token != "" {
					header.Set("Authorization", token)
				}
				p, got := r.tryWeb(t, header)
				if got != want {
					t.Errorf("host %q, origin %q, authorization %q: %d, want %d", host, o.origin, token, got, want)
				}
				if p != nil {
					_ = p.ws.Close()
				}
			}
		}
	}
}

func TestATokenInTheURLCountsForNothing(t *testing.T) {
	r := newRig(t)
	r.dialWeb(t, native())
	_, res, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.web.URL, "http")+SocketPath+"?token="+testToken+"&access_token="+testToken, nil)
	if err == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v, %v", res, err)
	}
	_ = res.Body.Close()
}

func TestTheSubprotocolIsNamedOnlyWhenItIsOffered(t *testing.T) {
	r := newRig(t)
	r.dialWeb(t, native())
	for offered, want := range map[string]string{"": "", "pedelec.v1": Subprotocol, "other, pedelec.v1": Subprotocol, "other": ""} {
		header := native()
		if offered != "" {
			header.Set("Sec-WebSocket-Protocol", offered)
		}
		ws, res, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.web.URL, "http")+SocketPath, header)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Header.Get("Sec-WebSocket-Protocol"); got != want {
			t.Errorf("offered %q, named %q", offered, got)
		}
		_ = ws.Close()
	}
}

func TestOtherRequestsToTheWebSocketsPathAreToldWhatItIs(t *testing.T) {
	r := newRig(t)
	web := httptest.NewServer(r.server.HTTPHandler())
	defer web.Close()
	if status, body := get(t, web.URL+SocketPath, "Authorization", "Bearer "+testToken); status != 400 || body != "This is a WebSocket.\n" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := get(t, web.URL+SocketPath); status != 401 {
		t.Errorf("without a token: %d", status)
	}
}

func TestWebSocketsAreLimited(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxSockets = MaxSocketsOfOrigin + 3 })
	r.settings.allow("https://a.example", "https://b.example")
	var open []*webPeer
	for range MaxSocketsOfOrigin {
		open = append(open, r.dialWeb(t, page("https://a.example")))
	}
	if _, status := r.tryWeb(t, page("https://a.example")); status != 503 {
		t.Errorf("one more of the origin: %d", status)
	}
	for range 3 {
		open = append(open, r.dialWeb(t, page("https://b.example")))
	}
	if _, status := r.tryWeb(t, native()); status != 503 {
		t.Errorf("one more at all: %d", status)
	}
	last := open[len(open)-1]
	last.send(ping("p"))
	last.line()
	c := r.socketOf(open[0])
	_ = open[0].ws.Close()
	<-c.over
	for { // its place is free a moment later
		if p, _ := r.tryWeb(t, native()); p != nil {
			break
		}
	}
}

func TestPagesThatNobodyApprovedLeaveRoomForOthers(t *testing.T) {
	r := newRig(t)
	r.settings.allow("https://good.example")
	for i := range MaxStrangerSockets {
		r.dialWeb(t, page(fmt.Sprintf("https://bad%d.example", i%4)))
	}
	if _, status := r.tryWeb(t, page("https://bad.example")); status != 503 {
		t.Errorf("one more stranger: %d", status)
	}
	r.dialWeb(t, page("https://good.example"))
	r.dialWeb(t, native())
}

func TestStrangersWhoComeAtOnceStayWithinTheirLimit(t *testing.T) {
	r := newRig(t)
	const come = MaxStrangerSockets + 32
	admitted := make(chan string, come) // "" = turned away
	begin := make(chan struct{})
	for i := range come {
		origin := fmt.Sprintf("https://bad%d.example", i)
		go func() {
			<-begin
			if !r.server.reserveSocket(origin) {
				origin = ""
			}
			admitted <- origin
		}()
	}
	close(begin)
	count := 0
	for range come {
		if origin := <-admitted; origin != "" {
			count++
			defer r.server.releaseSocket(origin)
		}
	}
	if count != MaxStrangerSockets {
		t.Errorf("%d strangers were let in, %d may be", count, MaxStrangerSockets)
	}
}

// foreignPeers takes nobody for our own user.
type foreignPeers struct{}

func (foreignPeers) Check(net.Conn) error { return errors.New("another user") }
func (foreignPeers) Supported() bool      { return true }

func TestAnotherUserGetsNoWebSocketWhateverOriginHeStates(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Peers = foreignPeers{} })
	r.settings.allow("https://a.example")
	web := httptest.NewServer(r.server.HTTPHandler())
	defer web.Close()
	for name, header := range map[string]http.Header{"page": page("https://a.example"), "native": native()} {
		ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(web.URL, "http")+SocketPath, header)
		if err == nil {
			_ = ws.Close()
			t.Errorf("%s: let in", name)
		}
	}
}
