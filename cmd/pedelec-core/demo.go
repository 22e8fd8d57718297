package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// demoLimit bounds the whole demo; it takes a few seconds.
const demoLimit = 2 * time.Minute

// What the demo asks of the scripted agent.
const (
	demoStream  = "stream 12 every 40ms"
	demoEndless = "stream 2000 every 20ms"
	demoWho     = "whoami"
)

// demoOperation names the operation in whose middle the daemon is killed, so
// that the client can repeat its request afterwards.
const demoOperation = "demo-interrupted-turn"

func (a *app) demoCommand() *cobra.Command {
	var web bool
	var port uint16
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole job once in a temporary home, against an agent of its own",
		Long: "Run the whole job once in a temporary home, against an agent that this program\n" +
			"contains: create, prepare, a streamed turn, a tool call, a file that goes to the agent\n" +
			"and back, a cancelled turn, end, resume, kill -9 of the daemon in the middle of a\n" +
			"turn, restart, and a client that catches up. Each step is checked; the exit status\n" +
			"is 1 when one is not as it should be.\n\n" +
			"With --web it serves a page instead, on which you do all that yourself: with the same\n" +
			"agent in a temporary home, or, with --home DIR, with the daemon and the agents of DIR.",
		GroupID: groupWork,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if web {
				return a.demoWeb(cmd.Context(), port)
			}
			if port != 0 {
				return usagef("--port is the port of the page; it goes with --web")
			}
			return a.demo(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&web, "web", false, "serve a web page to try it on")
	cmd.Flags().Uint16Var(&port, "port", 0, "`PORT` of the page (default: a free one)")
	return cmd
}

func (a *app) demo(ctx context.Context) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	d, err := newDemo(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.cleanUp(err)) }()
	return d.run(ctx)
}

// demo is one run of the job: a daemon of its own, and a client.
type demo struct {
	*stage
	client *ipc.Client
	thread string
	sub    *subscription
	seen   uint64 // number of the last event that the client has seen
	agents []int  // processes of agents that were started
}

func newDemo(a *app) (*demo, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the path of this program is unknown: %w", err)
	}
	s, err := newStage(program, a.stdout)
	if err != nil {
		return nil, err
	}
	return &demo{stage: s}, nil
}

func (d *demo) run(ctx context.Context) error {
	steps := []struct {
		title string
		run   func(context.Context) error
	}{
		{"Start the daemon", d.start},
		{"Create a thread", d.create},
		{"Prepare it", d.prepare},
		{"Stream a turn", d.streamTurn},
		{"Let the agent call a function of the page", d.callTool},
		{"Share a file with the agent", d.shareFile},
		{"Cancel a turn in its middle", d.cancelTurn},
		{"End the thread", d.end},
		{"Resume it", d.resume},
		{"Kill the daemon in the middle of a turn, with SIGKILL", d.crash},
		{"Start it again", d.restart},
		{"Let the client catch up from the last event that it saw", d.catchUp},
		{"Take one more turn in the same conversation", d.goOn},
		{"Stop the daemon", d.leave},
	}
	began := time.Now()
	d.headline()
	for i, step := range steps {
		d.title(i+1, len(steps), step.title)
		start := time.Now()
		err := step.run(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			return errors.New("the demo was interrupted; it leaves nothing behind")
		}
		if err != nil {
			d.cross(err)
			return fmt.Errorf("the demo failed at step %d, %q: %s", i+1, step.title, sentence(err))
		}
		d.tick(time.Since(start))
	}
	d.note("")
	d.note("All %d steps are as they should be (%v).", len(steps), time.Since(began).Round(10*time.Millisecond))
	return nil
}

func (d *demo) start(ctx context.Context) (err error) {
	if d.client, err = d.launch(ctx); err != nil {
		return err
	}
	f := d.client.Runtime()
	d.note("pid %d listens on %s, home %s", f.PID, f.Endpoint, d.home)
	return nil
}

func (d *demo) create(ctx context.Context) error {
	var ref ipc.ThreadRef
	payload := map[string]any{"provider": "opencode", "workspace": map[string]any{"path": d.project}, "skills": jsontext.Value(demoSkills)}
	if err := d.client.Call(ctx, "create_thread", payload, &ref); err != nil {
		return err
	}
	d.thread = ref.ThreadID
	agents, err := d.runtimes(ctx)
	if err != nil {
		return err
	}
	if len(agents) > 0 {
		return errors.New("an agent was started though nothing was asked of it yet")
	}
	d.note("%s in %s; no agent runs yet", d.thread, d.project)
	return d.follow(ctx, new(uint64))
}

func (d *demo) prepare(ctx context.Context) error {
	if err := d.client.Call(ctx, "prepare_thread", threadPayload(d.thread), nil); err != nil {
		return err
	}
	events, err := d.until(ctx, completed)
	if err != nil {
		return err
	}
	// The events of the creation come first: the subscription began before them.
	if err := wantOutline(events, "created → idle → running(op) → idle(op) → completed"); err != nil {
		return err
	}
	if said := spoken(events); said != "" {
		return fmt.Errorf("a preparation says nothing, but it said %q", said)
	}
	if d.agents, err = d.runtimes(ctx); err != nil {
		return err
	}
	if len(d.agents) != 1 {
		return fmt.Errorf("one agent process was expected, there are %d", len(d.agents))
	}
	d.note("the agent (pid %d) has answered, and none of it shows as text", d.agents[0])
	return nil
}

func (d *demo) streamTurn(ctx context.Context) error {
	if _, err := d.send(ctx, demoStream, ""); err != nil {
		return err
	}
	d.say(indent)
	events, err := d.until(ctx, func(ev ipc.Event) bool {
		if isDelta(ev) {
			d.say(ev.Text)
		}
		return completed(ev)
	})
	d.say("\n")
	if err != nil {
		return err
	}
	if err := wantOutline(events, "running(op) → idle(op) → completed"); err != nil {
		return err
	}
	return d.checkText(events)
}

// checkText compares what was streamed with the complete message.
func (d *demo) checkText(events []ipc.Event) error {
	deltas, streamed, message := 0, "", ""
	for _, ev := range events {
		switch ev.Type {
		case "assistant_delta":
			deltas++
			streamed += ev.Text
		case "assistant_message":
			message += ev.Text
		}
	}
	if deltas < 2 {
		return fmt.Errorf("the turn was to be streamed, but came in %d pieces", deltas)
	}
	if streamed != message {
		return fmt.Errorf("the pieces make %q, but the message is %q", streamed, message)
	}
	d.note("came in %d pieces, and the message at the end is their sum", deltas)
	return nil
}

func (d *demo) cancelTurn(ctx context.Context) error {
	admitted, err := d.send(ctx, demoEndless, "")
	if err != nil {
		return err
	}
	before, err := d.until(ctx, isDelta)
	if err != nil {
		return err
	}
	var answer ipc.Cancellation
	payload := map[string]any{"threadId": d.thread, "operationId": admitted.OperationID}
	if err := d.client.Call(ctx, "cancel_operation", payload, &answer); err != nil {
		return err
	}
	if !answer.Cancelled {
		return errors.New("the daemon says that nothing was cancelled")
	}
	after, err := d.until(ctx, statusIs("idle"))
	if err != nil {
		return err
	}
	d.note("the agent had begun to speak; it stopped when it was told")
	return wantOutline(append(before, after...), "running(op) → completed OPERATION_CANCELLED → idle")
}

func (d *demo) end(ctx context.Context) error {
	if err := d.client.Call(ctx, "end_thread", threadPayload(d.thread), nil); err != nil {
		return err
	}
	events, err := d.until(ctx, statusIs("ended"))
	if err != nil {
		return err
	}
	if err := wantOutline(events, "ended → status ended"); err != nil {
		return err
	}
	if _, err := d.send(ctx, "hello?", ""); !fault.Is(err, fault.ThreadEnded) {
		return fmt.Errorf("a text for an ended thread is to be refused with THREAD_ENDED, but: %v", err)
	}
	d.note("a text is refused now: THREAD_ENDED")
	return nil
}

func (d *demo) resume(ctx context.Context) error {
	var resumed ipc.Resumed
	if err := d.client.Call(ctx, "resume_thread", threadPayload(d.thread), &resumed); err != nil {
		return err
	}
	if resumed.Snapshot.Status != "idle" {
		return fmt.Errorf("the thread is %s after its resume", resumed.Snapshot.Status)
	}
	events, err := d.until(ctx, statusIs("idle"))
	if err != nil {
		return err
	}
	d.note("idle again, with all that it was; the same subscription tells of it")
	return wantOutline(events, "idle")
}

func (d *demo) crash(ctx context.Context) error {
	if _, err := d.send(ctx, demoEndless, demoOperation); err != nil {
		return err
	}
	for range 3 {
		if _, err := d.until(ctx, isDelta); err != nil {
			return err
		}
	}
	var err error
	if d.agents, err = d.runtimes(ctx); err != nil {
		return err
	}
	if len(d.agents) == 0 {
		return errors.New("the agent's process is not listed while it runs a turn")
	}
	pid := d.client.Runtime().PID
	d.kill()
	for range d.sub.events { // what was on its way
	}
	if !fault.Is(d.sub.err, fault.CoreRuntimeUnavailable) {
		return fmt.Errorf("the client was to notice that the daemon is gone, but: %v", d.sub.err)
	}
	d.unfollow()
	d.note("pid %d is gone; the last event that the client saw is number %d", pid, d.seen)
	return nil
}

func (d *demo) restart(ctx context.Context) (err error) {
	dead := d.client.Runtime()
	start := time.Now()
	if d.client, err = d.launch(ctx); err != nil {
		return err
	}
	f := d.client.Runtime()
	if f.InstanceID == dead.InstanceID {
		return errors.New("the runtime file still tells of the dead daemon")
	}
	d.note("pid %d answers %v after its start", f.PID, time.Since(start).Round(time.Millisecond))
	for _, pid := range d.agents {
		if !goneWithin(ctx, pid) {
			return fmt.Errorf("the agent of the dead daemon (pid %d) still runs", pid)
		}
	}
	d.note("the agent that the dead daemon left (pid %d) is gone", d.agents[0])
	return nil
}

func (d *demo) catchUp(ctx context.Context) error {
	after := d.seen
	if err := d.follow(ctx, &after); err != nil {
		return err
	}
	replay := d.sub.stream.Replay
	if replay == nil || replay.FromSeq != after+1 || replay.Truncated {
		return fmt.Errorf("a complete replay from event %d was expected, not %+v", after+1, replay)
	}
	events, err := d.until(ctx, statusIs("idle"))
	if err != nil {
		return err
	}
	if err := wantOutline(events, "completed OPERATION_INTERRUPTED → idle"); err != nil {
		return err
	}
	d.note("its turn was interrupted (OPERATION_INTERRUPTED), the thread is idle")
	answer, err := d.send(ctx, demoEndless, demoOperation)
	if err != nil {
		return err
	}
	if !answer.Replayed {
		return errors.New("the repeated request was taken for a new one")
	}
	d.note("the client repeats its request: it is known, and nothing runs twice")
	return nil
}

func (d *demo) goOn(ctx context.Context) error {
	if _, err := d.send(ctx, demoWho, ""); err != nil {
		return err
	}
	events, err := d.until(ctx, completed)
	if err != nil {
		return err
	}
	if err := wantOutline(events, "running(op) → idle(op) → completed"); err != nil {
		return err
	}
	said := strings.TrimSpace(spoken(events))
	if !strings.HasPrefix(said, "session=") || strings.Contains(said, " turn=1 ") {
		return fmt.Errorf("the agent was to go on with its conversation, but says %q", said)
	}
	d.note("the agent, a new process, says: %s", said)
	d.agents, err = d.runtimes(ctx)
	return err
}

func (d *demo) leave(ctx context.Context) error {
	if err := d.client.Call(ctx, "shutdown", nil, nil); err != nil {
		return err
	}
	if err := d.awaitExit(ctx); err != nil {
		return err
	}
	d.unfollow()
	if _, err := os.Stat(filepath.Join(d.home, ipc.RuntimeFileName)); err == nil {
		return errors.New("it left its runtime file behind")
	}
	for _, pid := range d.agents {
		if !goneWithin(ctx, pid) {
			return fmt.Errorf("its agent (pid %d) still runs", pid)
		}
	}
	d.note("it has left with status 0, and so has its agent")
	return nil
}

// send sends a text; operationID may be "".
func (d *demo) send(ctx context.Context, text, operationID string) (ipc.Admission, error) {
	payload := map[string]any{"threadId": d.thread, "message": text}
	if operationID != "" {
		payload["operationId"] = operationID
	}
	var admitted ipc.Admission
	err := d.client.Call(ctx, "send_text", payload, &admitted)
	return admitted, err
}

// runtimes returns the processes of the agents that run.
func (d *demo) runtimes(ctx context.Context) ([]int, error) {
	var list ipc.RuntimeList
	if err := d.client.Call(ctx, "list_runtimes", nil, &list); err != nil {
		return nil, err
	}
	var pids []int
	for _, r := range list.Runtimes {
		pids = append(pids, r.PID)
	}
	return pids, nil
}

// cleanUp leaves no process and no file. After a failure it shows the end of the
// daemon's log.
func (d *demo) cleanUp(failure error) error {
	d.unfollow()
	d.kill()
	for _, pid := range d.agents {
		if goneWithin(context.Background(), pid) {
			continue
		}
		if agent, err := os.FindProcess(pid); err == nil {
			_ = agent.Kill() // the daemon that would have ended it is gone
			_ = agent.Release()
		}
	}
	return d.stage.cleanUp(failure)
}
