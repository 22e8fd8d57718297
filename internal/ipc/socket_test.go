package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func snapshotOf(requestID, threadID string) string {
	return fmt.Sprintf(`{"requestId":%q,"type":"thread_snapshot","payload":{"threadId":%q}}`, requestID, threadID)
}

func submitResult(requestID, threadID, call string) string {
	return fmt.Sprintf(`{"requestId":%q,"type":"submit_tool_result","payload":{"threadId":%q,"requestId":%q,"result":1}}`, requestID, threadID, call)
}

// hold makes calls of a method wait until the returned function is called.
func (r *rig) hold(method string) (release func()) {
	wait := make(chan struct{})
	r.threads.mu.Lock()
	defer r.threads.mu.Unlock()
	r.threads.hold[method] = wait
	return func() {
		r.threads.mu.Lock()
		delete(r.threads.hold, method)
		r.threads.mu.Unlock()
		close(wait)
	}
}

// awaitEntered returns when so many calls of a method have begun to wait.
func (r *rig) awaitEntered(method string, count int) {
	for count > 0 {
		if m := <-r.threads.entered; m == method {
			count--
		}
	}
}

func TestMessagesThatAreNoTextCloseTheWebSocketWithTheirCode(t *testing.T) {
	long := `{"requestId":"long","type":"ping","x":"` + strings.Repeat("x", MaxLineBytes) + `"}`
	tests := []struct {
		name string
		kind int
		text string
		want int
	}{
		{"binary", websocket.BinaryMessage, ping("b"), websocket.CloseUnsupportedData},
		{"over the limit", websocket.TextMessage, long, websocket.CloseMessageTooBig},
		{"not UTF-8", websocket.TextMessage, "{\"requestId\":\"\xff\",\"type\":\"ping\"}", websocket.CloseInvalidFramePayloadData},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			p := r.dialWeb(t, native())
			p.send(ping("before"))
			hasAll(t, p.line(), `"requestId":"before"`, `"ok":true`)
			p.write(tt.kind, tt.text)
			if code := p.closed(); code != tt.want {
				t.Errorf("closed with %d, want %d", code, tt.want)
			}
		})
	}
}

func TestAMessageOfExactlyTheLimitIsServed(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	head, tail := `{"requestId":"big","type":"ping","x":"`, `"}`
	p.send(head + strings.Repeat("x", MaxLineBytes-len(head)-len(tail)) + tail)
	hasAll(t, p.line(), `"requestId":"big"`, `"ok":true`)
}

func TestAMessageInFragmentsIsOneRequest(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	w, err := p.ws.NextWriter(websocket.TextMessage)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{`{"requestId":"f",`, strings.Repeat(" ", 10_000), `"type":"ping"}`} {
		if _, err := w.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	hasAll(t, p.line(), `"requestId":"f"`, `"ok":true`)
}

func TestWhatWasAcceptedIsAnsweredBeforeARefusedMessageCloses(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	release := r.hold("Snapshot")
	p := r.dialWeb(t, native())
	p.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 1)
	p.write(websocket.BinaryMessage, "x")
	p.send(ping("not taken any more"))
	release()
	hasAll(t, p.line(), `"requestId":"slow"`, `"ok":true`)
	if code := p.closed(); code != websocket.CloseUnsupportedData {
		t.Errorf("closed with %d", code)
	}
}

func TestARequestThatNeverEndsIsAnsweredToo(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Drain = 50 * time.Millisecond })
	id := r.createThread(t)
	r.hold("Snapshot")
	p := r.dialWeb(t, native())
	p.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 1)
	p.write(websocket.BinaryMessage, "x")
	hasAll(t, p.line(), `"requestId":"slow"`, string(fault.CoreRuntimeUnavailable))
	p.closed()
}

func TestTheThirtyThirdRequestInFlightIsRefused(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	release := r.hold("Snapshot")
	for i := range MaxInFlight {
		p.send(snapshotOf(fmt.Sprint(i), r.createThread(t)))
	}
	r.awaitEntered("Snapshot", MaxInFlight)
	p.send(ping("33"), snapshotOf("34", "t"), "nonsense")
	for _, id := range []string{"33", "34", ""} {
		hasAll(t, p.line(), fmt.Sprintf(`{"requestId":%q,"ok":false`, id), "OVERLOADED")
	}
	release()
	for range MaxInFlight {
		hasAll(t, p.line(), `"ok":true`)
	}
	for i := range 3 * MaxInFlight { // room again, as soon as an answer was read
		p.send(ping(fmt.Sprint(i)))
		hasAll(t, p.line(), `"ok":true`)
	}
}

func TestAClientMayKeepThirtyTwoRequestsInFlightAllTheTime(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	id := r.createThread(t)
	const total = 2000
	sent := 0
	for ; sent < MaxInFlight; sent++ {
		p.send(snapshotOf(fmt.Sprint(sent), id))
	}
	for answers := range total {
		if line := p.line(); !strings.Contains(line, `"ok":true`) {
			t.Fatalf("answer %d: %s", answers, line)
		}
		if sent < total {
			p.send(snapshotOf(fmt.Sprint(sent), id))
			sent++
		}
	}
}

func TestLargeMessagesInFlightAreBounded(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	release := r.hold("SendText")
	defer release()
	text := strings.Repeat("x", 1_000_000)
	const room = maxBytesInFlight / 1_000_000
	for i := range room {
		p.send(fmt.Sprintf(`{"requestId":"%d","type":"send_text","payload":{"threadId":%q,"message":%q}}`, i, r.createThread(t), text))
	}
	r.awaitEntered("SendText", room)
	p.send(fmt.Sprintf(`{"requestId":"over","type":"send_text","payload":{"threadId":"t","message":%q}}`, text))
	hasAll(t, p.line(), `"requestId":"over"`, "OVERLOADED")
}

func TestOneLargeAnswerAtATimeIsMade(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	release := r.hold("ReadEvents")
	for i := range 3 {
		p.send(fmt.Sprintf(`{"requestId":"%d","type":"read_events","payload":{"threadId":%q}}`, i, r.createThread(t)))
	}
	r.awaitEntered("ReadEvents", 1)
	p.send(ping("p"))
	hasAll(t, p.line(), `"requestId":"p"`) // all were received
	r.threads.mu.Lock()
	waiting := len(r.threads.entered)
	r.threads.mu.Unlock()
	if waiting > 0 {
		t.Error("a second large answer is being made")
	}
	release()
	for range 3 {
		hasAll(t, p.line(), `"events":[`)
	}
}

func TestPingsAndPongsGoOnWhileARequestBlocks(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Ping, c.Pong = 10*time.Millisecond, time.Second })
	id := r.createThread(t)
	release := r.hold("Snapshot")
	p := r.dialWeb(t, native())
	p.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 1)

	pinged, ponged, begun := 0, 0, time.Now()
	enough := sync.OnceFunc(release)
	p.ws.SetPingHandler(func(string) error {
		pinged++
		if time.Since(begun) > 3*time.Second/2 { // longer than a silent client has
			enough()
		}
		return errors.Join(
			p.ws.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second)),
			p.ws.WriteControl(websocket.PingMessage, []byte(fmt.Sprint(pinged)), time.Now().Add(time.Second)))
	})
	p.ws.SetPongHandler(func(string) error { ponged++; return nil })
	hasAll(t, p.line(), `"requestId":"slow"`, `"ok":true`)
	if pinged < 2 || ponged == 0 {
		t.Errorf("%d pings and %d pongs came", pinged, ponged)
	}
}

func TestAClientThatAnswersNoPingIsCut(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Ping, c.Pong = 10*time.Millisecond, 100*time.Millisecond })
	id := r.createThread(t)
	p := r.dialWeb(t, native())
	p.send(subscribe("s", id))
	p.line() // and from now on nothing is read, so that no ping is answered
	<-r.socketOf(p).over
	hasAll(t, r.log.String(), "did not answer pings")
}

func TestToolResultsPassAFolderPickerThatIsOpen(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t)
	r.settings.pickHold, r.settings.picked = hold, t.TempDir()
	id := r.createThread(t)
	p := r.dialWeb(t, native())
	p.send(`{"requestId":"pick","type":"pick_workspace_folder","callerOrigin":"https://a.example"}`)
	for i := range 50 {
		p.send(submitResult(fmt.Sprint(i), id, "r"))
		hasAll(t, p.line(), fmt.Sprintf(`{"requestId":"%d","ok":true`, i))
	}
	close(hold)
	hasAll(t, p.line(), `"requestId":"pick"`, `"isEmptyFolder":true`)
}

func TestAToolCallDoesNotHoldUpItsResult(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	release := r.hold("CallTool")
	p := r.dialWeb(t, native())
	p.send(
		fmt.Sprintf(`{"requestId":"call","type":"tool_call","payload":{"threadId":%q,"toolName":"paint","args":{}}}`, id),
		submitResult("result", id, "r1"),
	)
	hasAll(t, p.line(), `"requestId":"result"`, `"ok":true`)
	release()
	hasAll(t, p.line(), `"requestId":"call"`)
}

func TestRequestsThatNameAThreadBeginInOrder(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	ids := []string{r.createThread(t), r.createThread(t)}
	for range 30 {
		r.threads.mu.Lock()
		r.threads.submitted = nil
		r.threads.mu.Unlock()
		for i := range MaxInFlight {
			p.send(submitResult(fmt.Sprint(i), ids[i%2], fmt.Sprintf("%s %02d", ids[i%2], i)))
		}
		for range MaxInFlight {
			hasAll(t, p.line(), `"ok":true`)
		}
		last := map[string]string{}
		r.threads.mu.Lock()
		for _, s := range r.threads.submitted {
			id, _, _ := strings.Cut(s, " ")
			if s < last[id] {
				t.Errorf("%s began before %s", last[id], s)
			}
			last[id] = s
		}
		r.threads.mu.Unlock()
	}
}

func TestARequestBeginsWhenTheOneBeforeHasItsPlaceAndNotBefore(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	release := r.hold("End")
	p := r.dialWeb(t, native())
	p.send(fmt.Sprintf(`{"requestId":"end","type":"end_thread","payload":{"threadId":%q}}`, id), snapshotOf("look", id))
	hasAll(t, p.line(), `"requestId":"look"`, `"ok":true`) // the end has its place, and goes on
	release()
	hasAll(t, p.line(), `"requestId":"end"`, `"ok":true`)
}

func TestShutdownAnswersWhatAWebSocketHasInFlight(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p := r.dialWeb(t, native())
	p.send(subscribe("s", id))
	p.line()
	release := r.hold("Snapshot")
	p.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 1)
	r.threads.tell(id, delta("the last words"))
	done := make(chan error, 1)
	go func() { done <- r.server.Shutdown(context.Background()) }()
	for !r.server.leaving.Load() {
		runtime.Gosched()
	}
	if _, status := r.tryWeb(t, native()); status != 503 {
		t.Errorf("a WebSocket was opened during the shutdown: %d", status)
	}
	release()
	var said []string
	for {
		m, err := p.read()
		if err != nil {
			if code := closeCode(err); code != websocket.CloseGoingAway {
				t.Errorf("closed with %v", err)
			}
			break
		}
		said = append(said, m)
	}
	hasAll(t, strings.Join(said, "\n"), "the last words", `"requestId":"slow","ok":true`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestForcedShutdownLetsGoOfAWebSocket(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	r.hold("Snapshot")
	p := r.dialWeb(t, native())
	p.send(snapshotOf("slow", id))
	r.awaitEntered("Snapshot", 1)
	c := r.socketOf(p)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Shutdown: %v", err)
	}
	<-c.over
}

func TestWhatAPageAsksForLastIsDone(t *testing.T) {
	r := newRig(t)
	for range 50 {
		id := r.createThread(t)
		p := r.dialWeb(t, native())
		c := r.socketOf(p)
		p.send(fmt.Sprintf(`{"requestId":"e","type":"end_thread","payload":{"threadId":%q}}`, id))
		_ = p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""), time.Now().Add(time.Second))
		_ = p.ws.Close()
		<-c.over
		r.threads.mu.Lock()
		status := r.threads.threads[id].status
		r.threads.mu.Unlock()
		if status != thread.Ended {
			t.Fatal("the thread was not ended")
		}
	}
}

func TestACloseIsAnsweredWithItsCode(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, native())
	_ = p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4001, "bye"), time.Now().Add(time.Second))
	if code := p.closed(); code != 4001 {
		t.Errorf("closed with %d", code)
	}
}

func TestAWebSocketThatIsNotReadIsCutAndHoldsLessThanOneMebibyte(t *testing.T) {
	r := newRig(t, func(c *Config) { c.WriteTimeout = 200 * time.Millisecond })
	id := r.createThread(t)
	p := r.dialWeb(t, native())
	_ = p.ws.NetConn().(*net.TCPConn).SetReadBuffer(4 << 10)
	p.send(subscribe("s", id))
	p.line()
	c := r.socketOf(p)
	var feed *memoryFeed
	r.threads.mu.Lock()
	for feed = range r.threads.threads[id].feeds {
	}
	r.threads.mu.Unlock()
	text := strings.Repeat("x", 60<<10)
	for range 400 { // more than the kernel buffers
		r.threads.tell(id, delta(text))
		r.threads.mu.Lock()
		held := 0
		for _, line := range r.threads.threads[id].lines[max(feed.written, feed.snap.LatestSeq):feed.cursor] {
			held += len(line)
		}
		r.threads.mu.Unlock()
		if held > 1<<20 {
			t.Fatalf("%d bytes are held for a stalled client", held)
		}
	}
	<-c.over
	hasAll(t, r.log.String(), "a client that did not read was cut")
}

func TestAPanicIsAnsweredOverAWebSocket(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	r.threads.panicIn = "Snapshot"
	p := r.dialWeb(t, native())
	p.send(snapshotOf("boom", id))
	hasAll(t, p.line(), `"requestId":"boom"`, `"INTERNAL"`)
	p.send(snapshotOf("again", id)) // its lane goes on
	hasAll(t, p.line(), `"requestId":"again"`, `"INTERNAL"`)
}

func TestASubscriberBehindTheTrimmedJournalIsToldToSubscribeAgain(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	p := r.dialWeb(t, native())
	p.send(subscribe("s", id))
	p.line()
	r.threads.mu.Lock()
	r.threads.threads[id].trim = 99
	r.threads.mu.Unlock()
	r.threads.tell(id, delta("unreachable"))
	if code := p.closed(); code != websocket.CloseTryAgainLater {
		t.Errorf("closed with %d", code)
	}
}

func TestAnAnswerOverAWebSocketHasArrivedOnceTheClientWentOnOrClosed(t *testing.T) {
	call := `{"requestId":"c","type":"tool_call","payload":{"threadId":"t","toolName":"paint","args":{}}}`
	tests := []struct {
		name string
		then func(p *webPeer, c *socket)
		want bool
	}{
		{"the client stays silent", func(*webPeer, *socket) {}, false},
		{"the client answers pings only", func(p *webPeer, _ *socket) {
			_ = p.ws.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
		}, false},
		{"the client closes", func(p *webPeer, c *socket) { _ = p.ws.Close(); <-c.over }, true},
		{"the client goes on", func(p *webPeer, _ *socket) { p.send(ping("n")); p.line() }, true},
		{"the client is killed", func(p *webPeer, c *socket) {
			_ = p.ws.NetConn().(*net.TCPConn).SetLinger(0)
			_ = p.ws.Close()
			<-c.over
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			p := r.dialWeb(t, native())
			p.send(call)
			p.line()
			tt.then(p, r.socketOf(p))
			r.threads.mu.Lock()
			receipt := r.threads.receipts[0]
			r.threads.mu.Unlock()
			if got := receipt.Delivered(); got != tt.want {
				t.Errorf("Delivered = %v, want %v", got, tt.want)
			}
		})
	}
}
