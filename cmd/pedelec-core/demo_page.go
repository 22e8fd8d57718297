package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// demoSkills is what a page would register: one function that the agent may call.
const demoSkills = `{"guidance":"The page shows a wall.","tools":[{
	"name":"paint","description":"Paints the wall.",
	"argsSchema":{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}}]}`

// The demo's tool call and the page's answer to it.
const (
	demoCall     = `call paint {"color":"teal"}`
	demoCallArgs = `{"color":"teal"}`
	demoResult   = `{"painted":true}`
)

// The demo's file, before and after the agent has had it.
const (
	demoAsset = "/notes.txt"
	demoNotes = "Buy paint.\n"
	demoDone  = "Paint is bought."
)

// callTool plays the page while the agent calls its function.
func (d *demo) callTool(ctx context.Context) error {
	if _, err := d.send(ctx, demoCall, ""); err != nil {
		return err
	}
	before, err := d.until(ctx, func(ev ipc.Event) bool { return ev.Type == "tool_call" })
	if err != nil {
		return err
	}
	call := before[len(before)-1]
	if call.ToolName != "paint" || string(call.Args) != demoCallArgs {
		return fmt.Errorf("the page was to paint %s, but is asked to %s %s", demoCallArgs, call.ToolName, call.Args)
	}
	d.note("the agent calls %s with %s, over MCP", call.ToolName, call.Args)
	var s ipc.Snapshot
	if err := d.client.Call(ctx, "thread_snapshot", threadPayload(d.thread), &s); err != nil {
		return err
	}
	if s.PendingToolRequest == nil || s.PendingToolRequest.RequestID != call.RequestID {
		return errors.New("a page that comes only now would not learn of the call from the snapshot")
	}
	answer := map[string]any{"threadId": d.thread, "requestId": call.RequestID, "result": jsontext.Value(demoResult)}
	if err := d.client.Call(ctx, "submit_tool_result", answer, nil); err != nil {
		return err
	}
	after, err := d.until(ctx, completed)
	if err != nil {
		return err
	}
	if err := wantOutline(append(before, after...), "running(op) → waitingToolResult(op) → tool_call → running(op) → tool_result → idle(op) → completed"); err != nil {
		return err
	}
	if said := spoken(after); !strings.Contains(said, demoResult) {
		return fmt.Errorf("the agent was to say the page's answer %s, but says %q", demoResult, said)
	}
	d.note("the page answers %s, and the agent has it", demoResult)
	return nil
}

// shareFile uploads a file, lets the agent write it anew, and downloads it.
func (d *demo) shareFile(ctx context.Context) error {
	file := filepath.Join(d.parent, filepath.Base(demoAsset))
	if err := os.WriteFile(file, []byte(demoNotes), fileMode); err != nil {
		return err
	}
	stored, err := putAsset(ctx, d.client, d.thread, file, demoAsset, unwatched)
	if err != nil {
		return err
	}
	if err := d.wantAsset(ctx, stored, demoNotes); err != nil {
		return err
	}
	d.note("uploaded %d bytes to %s, and read them back", len(demoNotes), stored)
	if _, err := d.send(ctx, "write .pedelec-runtime/assets"+demoAsset+" "+demoDone, ""); err != nil {
		return err
	}
	if _, err := d.until(ctx, completed); err != nil {
		return err
	}
	var list ipc.AssetList
	if err := d.client.Call(ctx, "list_assets", threadPayload(d.thread), &list); err != nil {
		return err
	}
	if len(list.Assets) != 1 || list.Assets[0].Path != demoAsset {
		return fmt.Errorf("one file %s was to be listed, not %+v", demoAsset, list.Assets)
	}
	if err := d.wantAsset(ctx, demoAsset, demoDone); err != nil {
		return err
	}
	d.note("the agent has rewritten it: %q", demoDone)
	return nil
}

// wantAsset downloads a file and compares it.
func (d *demo) wantAsset(ctx context.Context, path, want string) error {
	var got bytes.Buffer
	if err := getAsset(ctx, d.client, d.thread, path, &got, unwatched); err != nil {
		return err
	}
	if got.String() != want {
		return fmt.Errorf("%s was to hold %q, but holds %q", path, want, got.String())
	}
	return nil
}
