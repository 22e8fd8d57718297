package scripted

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// placement says where a tool's process lives.
type placement int

const (
	sameGroup  placement = iota // in the agent's process group, keeping its output open
	ownSession                  // in a session of its own, as real agents start their tools
)

// startTool starts a copy of this program that only sleeps, and says its pid.
// The copy outlives the agent, as tools of real agents do.
func (t *turn) startTool(name string, where placement) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	role := roleSleep
	if t.a.stubborn.Load() {
		role = roleSleepOnTerm
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Env = append(slices.Clone(t.a.env), roleEnv+"="+role)
	switch where {
	case sameGroup:
		if f := file(t.a.stdout); f != nil {
			cmd.Stdout = f
		}
		if f := file(t.a.stderr); f != nil {
			cmd.Stderr = f
		}
	case ownSession:
		startOwnSession(cmd)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	// Reaps the tool if it ends first; else it goes with this process.
	go func() { _ = cmd.Wait() }()
	return t.message(fmt.Sprintf("%s pid=%d", name, pid))
}
