package ipc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// FuzzLineScanner compares with splitting what was received as a whole, however it
// came in.
func FuzzLineScanner(f *testing.F) {
	f.Add([]byte("{}\n{\"requestId\":\"a\"}\r\nrest"), uint8(3))
	f.Add([]byte("\n\n"), uint8(0))
	f.Add([]byte(strings.Repeat("x", 2*smallBuffer)+"\ny"), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8) {
		const room = 1 << 20 // more than any input here
		source := bytes.NewReader(stream)
		var s lineScanner
		var got []string
		for {
			n, err := s.fill(io.LimitReader(source, int64(chunk)+1), room)
			for line, ok := s.next(); ok; line, ok = s.next() {
				got = append(got, string(line))
			}
			if n == 0 && errors.Is(err, io.EOF) {
				break
			}
		}
		want := strings.Split(string(stream), "\n")
		if last := want[len(want)-1]; string(s.rest()) != last {
			t.Fatalf("behind the last line there is %q, want %q", s.rest(), last)
		}
		if !slices.Equal(got, want[:len(want)-1]) {
			t.Fatalf("%q has the lines %q", stream, got)
		}
		if bound := max(smallBuffer, 2*len(stream)+2*smallBuffer); cap(s.buf) > bound {
			t.Fatalf("%d bytes took a buffer of %d", len(stream), cap(s.buf))
		}
	})
}

func FuzzOriginRecord(f *testing.F) {
	f.Add(decision{approved, time.UnixMilli(1_700_000_000_000)}.encode())
	f.Add(decision{rejected, time.UnixMilli(-1)}.encode())
	f.Add(append(decision{approved, time.UnixMilli(7)}.encode(), 0))
	f.Add([]byte{originVersion, 3, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		d, err := decodeDecision(value)
		if err != nil {
			return
		}
		if d.verdict == undecided {
			t.Fatalf("%x is no decision and was read as one", value)
		}
		if again := d.encode(); !bytes.Equal(again, value) {
			t.Fatalf("%x was written again as %x", value, again)
		}
	})
}

// FuzzEvent encodes what an agent says as an event line and reads it back.
func FuzzEvent(f *testing.F) {
	f.Add("hello", "add", uint64(7))
	f.Add("a\u2028b\n\x00\xff\"", "\\", ^uint64(0))
	f.Fuzz(func(t *testing.T, text, name string, seq uint64) {
		events := []thread.Event{
			{Kind: thread.EventAssistantDelta, Seq: seq, OperationID: name, Text: text},
			{Kind: thread.EventAssistantMessage, Seq: seq, Text: text},
			{Kind: thread.EventToolCall, Seq: seq, RequestID: text, ToolName: name},
			{Kind: thread.EventProviderSessionIDUpdated, Seq: seq, ProviderSessionID: text},
			{Kind: thread.EventOperationCompleted, Seq: seq, Error: fault.New(fault.ProviderRequestFailed, text)},
		}
		for _, ev := range events {
			line := EncodeEvent(nil, name, &ev)
			if bytes.IndexByte(line, '\n') != len(line)-1 {
				t.Fatalf("not one line: %q", line)
			}
			var told struct {
				Event Event `json:"event"`
			}
			if err := decodeObject(line, &told); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if got, want := told.Event.Text, strings.ToValidUTF8(ev.Text, "\ufffd"); told.Event.Seq != seq || !sameText(got, want) {
				t.Fatalf("%q became %q", want, got)
			}
		}
	})
}

// sameText compares texts in which each byte that is no UTF-8 may have been
// replaced on its own, or a run of them at once.
func sameText(a, b string) bool {
	squeeze := func(s string) string {
		return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\ufffd' }), "\ufffd")
	}
	return squeeze(a) == squeeze(b)
}

// FuzzClientReads lets the client talk to something that is not the daemon: it
// answers with an error of ours, and never waits for more when all was said.
func FuzzClientReads(f *testing.F) {
	f.Add([]byte(`{"requestId":"pedelec_1","ok":true,"result":{"connected":true,"instanceId":"i"}}` + "\n"))
	f.Add([]byte(`{"type":"thread_event","event":{"type":"ended","seq":3}}` + "\n" + `{"requestId":"pedelec_1","ok":false,"error":{"code":"X","message":"m","details":{}}}` + "\n"))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte(`{"requestId":"pedelec_1","ok":false}` + "\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		defer near.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer far.Close()
			var request lineScanner
			for _, ok := request.next(); !ok; _, ok = request.next() {
				if _, err := request.fill(far, maxBuffered); err != nil {
					return
				}
			}
			_, _ = far.Write(said) // the client may have read enough
		}()
		w := &clientWire{conn: near}
		var pong PingResult
		err := w.roundTrip(context.Background(), &Client{}, "ping", nil, &pong)
		near.Close()
		<-done
		if got, want := fault.From(err), answerIn(said, "pedelec_1"); err == nil && want != "" || err != nil && (got.Code != want || got.Message() == "") {
			t.Fatalf("%q: %v, want %q", said, err, want)
		}
	})
}

// answerIn looks for the answer to a ping in all that was said, and returns the code of
// the error that it is or that tells of it; "" = well.
func answerIn(said []byte, id string) fault.Code {
	lines := bytes.Split(said, []byte{'\n'})
	for _, line := range lines[:len(lines)-1] {
		var answer incoming
		if err := json.Unmarshal(line, &answer); err != nil {
			return fault.IPCUnavailable
		}
		var pong PingResult
		switch {
		case answer.RequestID != id && answer.Error == nil:
			continue
		case !answer.OK && answer.Error != nil:
			return fault.From(answer.Error.Err()).Code
		case !answer.OK || json.Unmarshal(answer.Result, &pong) != nil:
			return fault.IPCUnavailable
		}
		return ""
	}
	return fault.CoreRuntimeUnavailable
}
