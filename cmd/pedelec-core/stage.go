package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/provider/scripted"
)

// Waits of the demo.
const (
	launchLimit = 10 * time.Second     // from a daemon's start to its first answer
	launchPoll  = 2 * time.Millisecond // how often it is asked
	gonePoll    = 5 * time.Millisecond
	goneLimit   = 5 * time.Second // for a process that must be gone
)

// stageLogLines is how much of the daemon's log is shown after a failure.
const stageLogLines = 20

// stage is where the demo plays: a temporary folder, a daemon that is a process
// of its own, and what is told to the person who watches.
type stage struct {
	out     io.Writer
	paint   painter
	parent  string // temporary folder that holds all others
	home    string
	project string
	program string // this program

	parentPID int      // with which the daemon ends
	flags     []string // more for serve
	env       []string // added to the daemon's environment

	daemon *exec.Cmd
	exited chan struct{} // closed when the daemon has ended
	exit   error         // valid then
}

func newStage(program string, out io.Writer) (*stage, error) {
	parent, err := os.MkdirTemp("", "pedelec-demo-")
	if err != nil {
		return nil, fmt.Errorf("no temporary folder can be made: %w", err)
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return nil, err
	}
	s := &stage{
		out: out, paint: newPainter(out), parent: parent, program: program, parentPID: os.Getpid(),
		home: filepath.Join(parent, "home"), project: filepath.Join(parent, "project"),
	}
	for _, dir := range []string{s.home, s.project} {
		if err := os.Mkdir(dir, folderMode); err != nil {
			return nil, errors.Join(err, os.RemoveAll(parent))
		}
	}
	if err := writeScriptedSettings(s.home, program, filepath.Join(parent, "agent")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(parent))
	}
	return s, nil
}

// writeScriptedSettings makes the scripted agent serve as OpenCode, with its
// conversations in the folder state.
func writeScriptedSettings(home, program, state string) error {
	text, err := json.Marshal(map[string]any{
		"defaultProvider": "opencode",
		"providerSettings": map[string]any{
			"opencode": map[string]any{
				"command": []string{program, "agent", "--scripted"},
				"env":     map[string]string{scripted.StateEnv: state},
			},
		},
	}, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(home, settingsFile), text, fileMode)
}

// launch starts a daemon and returns a client once it answers.
func (s *stage) launch(ctx context.Context) (*ipc.Client, error) {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the daemon has its own handle
	args := append([]string{"serve", "--home", s.home, "--parent-pid", strconv.Itoa(s.parentPID)}, s.flags...)
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(withoutPedelec(os.Environ()), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the daemon cannot be started: %w", err)
	}
	s.daemon, s.exited = cmd, make(chan struct{})
	go func() {
		s.exit = cmd.Wait()
		close(s.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, launchLimit)
	defer cancel()
	tick := time.NewTicker(launchPoll)
	defer tick.Stop()
	for {
		if c, err := ipc.Dial(ctx, s.home); err == nil && c.Runtime().PID == cmd.Process.Pid {
			return c, nil
		}
		select {
		case <-s.exited:
			return nil, fmt.Errorf("the daemon left at its start: %w", s.exit)
		case <-ctx.Done():
			return nil, fmt.Errorf("the daemon did not answer in %v", launchLimit)
		case <-tick.C:
		}
	}
}

// withoutPedelec leaves out what would steer the daemon.
func withoutPedelec(env []string) []string {
	var kept []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "PEDELEC_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// kill ends the daemon as a crash would, if it runs.
func (s *stage) kill() {
	if s.daemon == nil {
		return
	}
	_ = s.daemon.Process.Kill() // it may have ended by itself
	<-s.exited
}

// awaitExit waits for the daemon's clean end.
func (s *stage) awaitExit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveLimit+goneLimit)
	defer cancel()
	select {
	case <-s.exited:
	case <-ctx.Done():
		return fmt.Errorf("it did not leave in %v", leaveLimit)
	}
	if s.exit != nil {
		return fmt.Errorf("it did not leave cleanly: %w", s.exit)
	}
	return nil
}

// goneWithin waits a moment for a process to be gone.
func goneWithin(ctx context.Context, pid int) bool {
	ctx, cancel := context.WithTimeout(ctx, goneLimit)
	defer cancel()
	pollGone(ctx, pid, gonePoll)
	return !alive(pid)
}

func (s *stage) logPath() string { return filepath.Join(s.parent, "daemon.log") }

// cleanUp removes the temporary folder. After a failure it first shows the end
// of the daemon's log.
func (s *stage) cleanUp(failure error) error {
	if failure != nil {
		s.showLog()
	}
	if err := os.RemoveAll(s.parent); err != nil {
		return fmt.Errorf("the temporary folder %s could not be removed: %w", s.parent, err)
	}
	return nil
}

func (s *stage) showLog() {
	file, err := os.Open(s.logPath())
	if err != nil {
		return // the daemon never started
	}
	defer file.Close()
	if seekLastLines(file, stageLogLines) != nil {
		return
	}
	s.note("")
	s.note("The end of the daemon's log:")
	_, _ = io.Copy(s.out, file)
}

// indent is the margin of what is told under a step's title.
const indent = "         "

func (s *stage) headline() {
	fmt.Fprintf(s.out, "%s\n", s.paint.paint(bold, "pedelec-core "+version+": the whole job, against an agent that does as it is told"))
}

func (s *stage) title(n, of int, text string) {
	fmt.Fprintf(s.out, "\n %s  %s\n", s.paint.paint(faint, fmt.Sprintf("%2d/%d", n, of)), s.paint.paint(bold, text))
}

// say writes a piece of text as it is.
func (s *stage) say(text string) { _, _ = io.WriteString(s.out, text) }

func (s *stage) note(format string, args ...any) {
	if format == "" {
		fmt.Fprintln(s.out)
		return
	}
	fmt.Fprintf(s.out, indent+format+"\n", args...)
}

func (s *stage) tick(took time.Duration) {
	fmt.Fprintf(s.out, "%s%s %s\n", indent, s.paint.paint(green, "✓"), s.paint.paint(faint, took.Round(time.Millisecond).String()))
}

func (s *stage) cross(err error) {
	fmt.Fprintf(s.out, "%s%s %s\n", indent, s.paint.paint(red, "✗"), sentence(err))
}
