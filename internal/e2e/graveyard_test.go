package e2e

import (
	"io"
	"os"
	"regexp"
	"strconv"
)

// graveyard knows which agents have died, by the log of their daemon.
type graveyard struct {
	log    string
	read   int64
	dead   map[int]bool    // by process; true = it was not the daemon that ended it
	ids    map[string]bool // runtime ids of all of them
	unread []byte          // a line that is still being written
	alone  int             // how many were not ended by the daemon
}

var agentGone = regexp.MustCompile(`agent gone .*pid=(\d+) .*runtime=([0-9a-f]+) stopped=(true|false)`)

// look reads what was logged since the last time.
func (g *graveyard) look() error {
	f, err := os.Open(g.log)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(g.read, io.SeekStart); err != nil {
		return err
	}
	fresh, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	g.read += int64(len(fresh))
	if g.dead == nil {
		g.dead, g.ids = map[int]bool{}, map[string]bool{}
	}
	g.unread = append(g.unread, fresh...)
	whole := g.unread[:lastLineEnd(g.unread)]
	for _, m := range agentGone.FindAllSubmatch(whole, -1) {
		pid, err := strconv.Atoi(string(m[1]))
		if err != nil {
			return err
		}
		alone := string(m[3]) == "false"
		g.dead[pid] = alone
		g.ids[string(m[2])] = true
		if alone {
			g.alone++
		}
	}
	g.unread = g.unread[len(whole):]
	return nil
}

func lastLineEnd(b []byte) int {
	for i := len(b); i > 0; i-- {
		if b[i-1] == '\n' {
			return i
		}
	}
	return 0
}

// has reports whether an agent is known to be dead.
func (g *graveyard) has(pid int) (bool, error) {
	err := g.look()
	_, dead := g.dead[pid]
	return dead, err
}

// killed returns how many agents died that the daemon did not end.
func (g *graveyard) killed() (int, error) {
	err := g.look()
	return g.alone, err
}

// risen returns the processes that belong to dead agents.
func (g *graveyard) risen(home string) []int {
	var pids []int
	for pid, id := range agentIDs(home) {
		if g.ids[id] {
			pids = append(pids, pid)
		}
	}
	return pids
}
