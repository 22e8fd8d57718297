package scripted

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Version is what the agent says of itself.
const Version = "1.0.0"

// Environment variables; see the package documentation.
const (
	StateEnv   = "PEDELEC_SCRIPTED_STATE"
	PrepareEnv = "PEDELEC_SCRIPTED_PREPARE"
	InitEnv    = "PEDELEC_SCRIPTED_INIT"
	PointsEnv  = "PEDELEC_SCRIPTED_FAILPOINTS"

	// roleEnv makes a copy of this program a tool that only sleeps.
	roleEnv         = "PEDELEC_SCRIPTED_ROLE"
	roleSleep       = "sleep"
	roleSleepOnTerm = "sleep-on-term"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const (
	// maxLife ends a process that refuses to die, should whoever tests that
	// forget it.
	maxLife = 10 * time.Minute
	// drainTime is how long the last output may take once the input has ended.
	drainTime = time.Second
)

const help = `pedelec-core's scripted agent: does what its prompt says.

Usage:
  agent --scripted [acp]      speak the Agent Client Protocol (acp) on stdin and stdout
  agent --scripted --version  print the version
`

// Run is the program: it serves until its input ends or ctx is cancelled, and
// returns the exit status. args are the arguments behind the program's name; a
// --scripted among them is ignored. env is a list of NAME=value.
//
// The goroutine that reads stdin may stay blocked in its Read when ctx ends Run
// first; it goes with the process.
func Run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, args, env []string) int {
	switch role := lookup(env, roleEnv); role {
	case roleSleep, roleSleepOnTerm:
		return sleep(ctx, role)
	}
	for _, arg := range args {
		switch arg {
		case "acp", "--scripted":
		case "--version":
			fmt.Fprintln(stdout, "pedelec-scripted "+Version)
			return exitDone
		case "--help", "-h":
			fmt.Fprint(stdout, help)
			return exitDone
		default:
			fmt.Fprintf(stderr, "The scripted agent does not know %q; see --help.\n", arg)
			return exitUsage
		}
	}
	sessions, err := openStore(lookup(env, StateEnv))
	if err != nil {
		fmt.Fprintf(stderr, "The folder of the sessions cannot be used: %v. Set %s to another one.\n", err, StateEnv)
		return exitFailed
	}
	a := newAgent(stdout, stderr, env, sessions)
	return a.serve(ctx, stdin)
}

func (a *agent) serve(ctx context.Context, stdin io.Reader) int {
	ended := make(chan error, 1)
	go func() { ended <- a.read(stdin) }()
	var readErr error
	select {
	case readErr = <-ended:
	case <-a.leave.Done():
	case <-ctx.Done():
	}
	if a.stubborn.Load() {
		time.Sleep(maxLife)
	}
	a.leaveNow()
	a.awaitTurns()
	a.leaveServers()
	a.out.close(drainTime)
	if readErr != nil {
		fmt.Fprintf(a.stderr, "The input cannot be read: %v.\n", readErr)
		return exitFailed
	}
	return exitDone
}

// leaveServers ends the sessions with all tool servers.
func (a *agent) leaveServers() {
	a.mu.Lock()
	sessions := slices.Collect(maps.Values(a.sessions))
	a.mu.Unlock()
	for _, s := range sessions {
		s.leaveServers()
	}
}

// sleep is what a tool does that the agent started.
func sleep(ctx context.Context, role string) int {
	if role == roleSleepOnTerm {
		ignoreTermination()
		ctx = context.WithoutCancel(ctx)
	}
	life := time.NewTimer(maxLife)
	defer life.Stop()
	select {
	case <-life.C:
	case <-ctx.Done():
	}
	return exitDone
}

// lookup returns the last value of a variable, "" when there is none.
func lookup(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// exits are the ways to end the process in the middle of everything.
type exits struct {
	status func(int) // like os.Exit
	crash  func()    // like kill -9
}

var realExits = exits{status: os.Exit, crash: killSelf}
