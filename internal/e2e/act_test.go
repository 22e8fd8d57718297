package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// act does what a line "! …" says.
func (s *stage) act(st step) error {
	rest, err := s.names.expand(st.rest)
	if err != nil {
		return err
	}
	args := strings.Fields(rest)
	want := func(n int) error {
		if len(args) < n {
			return fmt.Errorf("%s needs %d arguments", st.word, n)
		}
		return nil
	}
	switch st.word {
	case "daemon":
		if err := want(1); err != nil {
			return err
		}
		return s.actDaemon(args[0], args[1:])
	case "agent":
		return s.killAgents()
	case "agents":
		if err := want(1); err != nil {
			return err
		}
		return s.waitAgents(args[0])
	case "status":
		if err := want(2); err != nil {
			return err
		}
		return s.waitStatus(args[0], args[1])
	case "http":
		return s.actHTTP(rest)
	case "remove":
		return os.RemoveAll(rest)
	case "mkdir":
		return os.MkdirAll(rest, 0o755)
	case "move":
		if err := want(2); err != nil {
			return err
		}
		return os.Rename(args[0], args[1])
	case "link":
		if err := want(2); err != nil {
			return err
		}
		return os.Symlink(args[0], args[1])
	case "write":
		path, text, _ := strings.Cut(rest, " ")
		return os.WriteFile(path, []byte(text), 0o600)
	case "exists", "missing":
		_, err := os.Lstat(rest)
		if (err == nil) != (st.word == "exists") {
			return fmt.Errorf("%s: %v", rest, err)
		}
		return nil
	}
	return fmt.Errorf("%q is no action", st.word)
}

func (s *stage) actDaemon(what string, env []string) error {
	switch what {
	case "start":
		s.startDaemon(env)
		return nil
	case "kill":
		s.d.kill()
	case "stop":
		// The connections stay, so that a scene can show what they were told.
		code, err := s.d.stop()
		if err != nil {
			return err
		}
		fmt.Fprintf(&s.out, "!< exit %d\n", code)
		return nil
	default:
		return fmt.Errorf("a daemon cannot %q", what)
	}
	for name, p := range s.players {
		p.conn.Close()
		delete(s.players, name)
	}
	return nil
}

// killAgents kills every provider process with SIGKILL and waits until the daemon
// knows.
func (s *stage) killAgents() error {
	c, err := open(s.d.info.Endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	c.token = s.d.info.Token
	pids, err := runtimePIDs(c)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("no agent runs")
	}
	for _, pid := range pids {
		if err := killProcess(pid); err != nil {
			return err
		}
	}
	return waitFor(patience, "the daemon to notice", func() (bool, error) {
		now, err := runtimePIDs(c)
		return !slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(pids, pid) }), err
	})
}

// runtimePIDs asks the daemon for its provider processes.
func runtimePIDs(c *conn) ([]int, error) {
	var list struct {
		Runtimes []struct {
			PID int `json:"pid"`
		} `json:"runtimes"`
	}
	if err := c.call("list_runtimes", nil, &list); err != nil {
		return nil, err
	}
	var pids []int
	for _, r := range list.Runtimes {
		pids = append(pids, r.PID)
	}
	return pids, nil
}

func killProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Release())
}

// waitAgents waits until so many processes of the daemon live.
func (s *stage) waitAgents(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	return waitFor(patience, count+" processes of agents", func() (bool, error) {
		return len(agents(s.home)) == n, nil
	})
}

// waitStatus waits until a thread has a status, without subscribing.
func (s *stage) waitStatus(thread, status string) error {
	c, err := open(s.d.info.Endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	c.token = s.d.info.Token
	return waitFor(patience, "status "+status, func() (bool, error) {
		var now snapshot
		err := c.call("thread_snapshot", object{"threadId": thread}, &now)
		return now.Status == status, err
	})
}
