package main

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

func TestOriginsThatWaitAreOfferedOneByOne(t *testing.T) {
	list := []ipc.OriginInfo{
		{Origin: "https://a.example", Waiting: 2}, {Origin: "https://idle.example", Connections: 1},
		{Origin: "https://b.example", Waiting: 1}, {Origin: "https://c.example", Waiting: 1},
	}
	for answers, want := range map[string][]string{
		"y\n\nYES\n": {"https://a.example", "https://c.example"},
		"n\nno\nx\n": nil,
		"y":          {"https://a.example"},
		"":           nil,
	} {
		var asked bytes.Buffer
		got, err := chooseOrigins(strings.NewReader(answers), &asked, list, "approve")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", answers, got, err)
		}
		if !strings.Contains(asked.String(), "A page of https://a.example asks to use agents. Approve it? [y/N]") || strings.Contains(asked.String(), "idle") {
			t.Errorf("asked %q", asked.String())
		}
	}
	if _, err := chooseOrigins(strings.NewReader("y\n"), &bytes.Buffer{}, list[1:2], "approve"); !fault.Is(err, fault.InvalidInput) {
		t.Errorf("nobody waits: %v", err)
	}
}

// TestAPageIsLetInRefusedAndCutOffByCommands plays a page against a whole daemon:
// what the user decides outlives a restart.
func TestAPageIsLetInRefusedAndCutOffByCommands(t *testing.T) {
	home := t.TempDir()
	if _, err := prepareHome(home); err != nil {
		t.Fatal(err)
	}
	open := func() *core {
		t.Helper()
		d := newDaemon(home, zerolog.Nop(), &fault.Redactor{}, nil)
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		return d
	}
	shut := func(d *core) {
		t.Helper()
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d := open()
	command := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
		if status := a.run(context.Background(), append([]string{"--home", home, "origins"}, args...)); status != fault.ExitDone {
			t.Fatalf("origins %v: %d %s", args, status, errs.String())
		}
		return out.String()
	}
	connect := func(d *core) *websocket.Conn {
		t.Helper()
		ws, res, err := websocket.DefaultDialer.Dial("ws://"+d.web+ipc.SocketPath, http.Header{"Origin": {"https://app.example"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		t.Cleanup(func() { _ = ws.Close() })
		return ws
	}
	say := func(ws *websocket.Conn, message string) {
		t.Helper()
		if err := ws.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(ws *websocket.Conn, want string) {
		t.Helper()
		_, m, err := ws.ReadMessage()
		if err != nil || !strings.Contains(string(m), want) {
			t.Fatalf("%s, %v; want %s", m, err, want)
		}
	}

	if got := command("ls"); !strings.Contains(got, "No web page has asked") {
		t.Errorf("ls: %s", got)
	}
	page := connect(d)
	say(page, `{"requestId":"1","type":"list_threads"}`)
	hear(page, "ORIGIN_NOT_APPROVED")
	say(page, `{"requestId":"2","type":"request_approval"}`)
	say(page, `{"requestId":"3","type":"ping"}`)
	hear(page, `"requestId":"3","ok":true`)
	if got := command("ls"); !strings.Contains(got, "undecided") {
		t.Errorf("ls: %s", got)
	}
	command("approve", "https://app.example")
	hear(page, `"approved":true`)
	say(page, `{"requestId":"4","type":"list_threads"}`)
	hear(page, `"threads":[]`)

	// The approval outlives a restart.
	shut(d)
	d = open()
	page = connect(d)
	say(page, `{"requestId":"5","type":"list_threads"}`)
	hear(page, `"threads":[]`)
	if got := command("ls", "--json"); !strings.Contains(got, `"decision": "approved"`) || !strings.Contains(got, `"connections": 1`) {
		t.Errorf("ls: %s", got)
	}
	command("revoke", "https://app.example")
	if _, _, err := page.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("after the revocation: %v", err)
	}
	command("reject", "https://app.example")
	page = connect(d)
	say(page, `{"requestId":"6","type":"request_approval"}`)
	hear(page, "APPROVAL_REJECTED")
	shut(d)
}
