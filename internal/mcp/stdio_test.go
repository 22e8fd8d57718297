package mcp

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// wireDaemon answers as the daemon does over its own protocol.
type wireDaemon struct {
	mu    sync.Mutex
	calls []toolRequest
	call  func(ctx context.Context, r toolRequest) (string, error)
}

func (d *wireDaemon) Call(ctx context.Context, typ string, payload, result any) error {
	r := payload.(toolRequest)
	var answer string
	var err error
	switch typ {
	case "tool_spec":
		err = fault.New(fault.ToolNotFound, "The thread has no tool of this name.")
		for _, t := range paintTools.Tools {
			if t.Name == r.ToolName {
				var b []byte
				b, err = json.Marshal(toolSpec{t.Name, t.Description, t.ArgsSchema})
				answer = string(b)
			}
		}
	case "tool_call":
		d.mu.Lock()
		d.calls = append(d.calls, r)
		d.mu.Unlock()
		answer, err = d.call(ctx, r)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(answer), result)
}

func TestToolsOnStandardStreams(t *testing.T) {
	d := &wireDaemon{call: func(_ context.Context, r toolRequest) (string, error) {
		if strings.Contains(string(r.Args), "green") {
			return "", fault.New(fault.ToolTimeout, "Too late.")
		}
		return `{"painted":` + string(r.Args) + `}`, nil
	}}
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- Stdio{Daemon: d, ThreadID: "t1", Tools: []string{"paint", dotted}}.Serve(t.Context(), ourIn, ourOut)
		_ = ourOut.Close()
	}()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: theirIn, Writer: theirOut}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 2 {
		t.Fatalf("tools %+v, %v", list, err)
	}
	for i, want := range []string{`{"painted":{"color":"red"}}`, `{"error":{"code":"TOOL_TIMEOUT","message":"Too late."}}`} {
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "paint", Arguments: map[string]string{"color": []string{"red", "green"}[i]}})
		if err != nil || text(got) != want || got.IsError != (i == 1) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: list.Tools[1].Name}); err != nil {
		t.Error(err)
	}
	if last := d.calls[len(d.calls)-1]; last.ToolName != dotted || string(last.Args) != "{}" || last.ThreadID != "t1" {
		t.Errorf("forwarded %+v", last)
	}
	_ = session.Close()
	if err := within(t, served, "the end"); err != nil {
		t.Error(err)
	}
}

func TestStandardStreamsEnd(t *testing.T) {
	d := &wireDaemon{}
	t.Run("with their input", func(t *testing.T) {
		if err := (Stdio{Daemon: d, ThreadID: "t1"}).Serve(t.Context(), strings.NewReader(""), io.Discard); err != nil {
			t.Error(err)
		}
	})
	t.Run("with the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in, w := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- Stdio{Daemon: d, ThreadID: "t1"}.Serve(ctx, in, io.Discard) }()
		cancel()
		if err := within(t, served, "the end"); err != nil {
			t.Error(err)
		}
		_ = w.Close()
	})
	t.Run("at once when a tool is unknown", func(t *testing.T) {
		err := Stdio{Daemon: d, ThreadID: "t1", Tools: []string{"nothing"}}.Serve(t.Context(), strings.NewReader(""), io.Discard)
		if !fault.Is(err, fault.ToolNotFound) {
			t.Errorf("error %v", err)
		}
	})
}
