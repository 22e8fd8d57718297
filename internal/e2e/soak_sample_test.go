package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// sample is what a daemon holds at one moment. What the system does not tell is
// zero.
type sample struct {
	at    time.Duration // since the load began
	tasks int64         // done until then

	anonymous   int64 // resident memory that no file backs, bytes
	heapInUse   int64 // bytes, garbage included
	heapLive    int64 // bytes that the last garbage collection left
	collections int64

	goroutines int
	threads    int // of the operating system
	fds        int
	children   int
	zombies    int

	storeBytes    int64
	loaded        int // threads in memory
	conns         int // TCP and WebSocket
	subscriptions int
	agents        int
}

// take asks the daemon and the system.
func take(d *daemon) (sample, error) {
	m, err := scrape(d)
	if err != nil {
		return sample{}, err
	}
	s := sample{
		heapInUse: int64(m["go_memstats_heap_inuse_bytes"]), heapLive: int64(m["go_gc_heap_live_bytes"]), collections: int64(m["go_gc_duration_seconds_count"]),
		goroutines: int(m["go_goroutines"]), threads: int(m["go_threads"]), fds: int(m["process_open_fds"]),
		storeBytes: int64(m["pedelec_store_bytes"]), loaded: int(m["pedelec_threads_loaded"]),
		conns: int(m["pedelec_ipc_connections"] + m["pedelec_ipc_websockets"]), subscriptions: int(m["pedelec_ipc_subscriptions"]),
		agents: int(m["pedelec_agents"]),
	}
	if s.children, s.zombies, err = childrenOf(d.cmd.Process.Pid); err != nil {
		return s, err
	}
	s.anonymous, err = residentMemory(d.cmd.Process.Pid)
	return s, err
}

// scrape returns the daemon's metrics by name, each the sum over its labels.
func scrape(d *daemon) (map[string]float64, error) {
	res, err := transferClient.Get("http://" + d.info.HTTPEndpoint + "/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics were answered with %s", res.Status)
	}
	return parseMetrics(res.Body)
}

func parseMetrics(r io.Reader) (map[string]float64, error) {
	sums := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		space := strings.LastIndexByte(line, ' ')
		if space < 0 {
			return nil, fmt.Errorf("%q is no metric", line)
		}
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		name, _, _ := strings.Cut(line[:space], "{")
		sums[name] += value
	}
	return sums, lines.Err()
}

// restCollections is how many garbage collections must be over since the load
// ended, so that what the last one left is what the daemon really holds: the first
// may have begun before, and objects with finalizers survive one.
const restCollections = 3

// atRest waits until nothing is left of a load, and returns what the daemon holds
// then. When it keeps something, the daemon is made to print its goroutines, which
// ends it.
func atRest(d *daemon) (sample, error) {
	var s sample
	err := waitFor(patience, "the daemon to come to rest", func() (done bool, err error) {
		s, err = take(d)
		return s.loaded+s.conns+s.subscriptions+s.agents+s.children == 0, err
	})
	if err == nil {
		s, err = collected(d, s.collections+restCollections)
	}
	if err != nil {
		return s, fmt.Errorf("%w; it has %+v, agents %s and goroutines\n%s", err, s, runtimesOf(d), stacks(d))
	}
	return s, nil
}

// collected makes the daemon collect its garbage by asking for metrics, which makes
// some, and returns the least that it held meanwhile: a question may find the
// connection of the one before not put away yet.
func collected(d *daemon, collections int64) (least sample, err error) {
	err = waitFor(patience, "the daemon to collect its garbage", func() (bool, error) {
		s, err := take(d)
		if least.collections > 0 {
			s.goroutines, s.fds = min(s.goroutines, least.goroutines), min(s.fds, least.fds)
		}
		least = s
		return s.collections >= collections, err
	})
	return least, err
}

// runtimesOf tells which agents run, for the message of a failed test.
func runtimesOf(d *daemon) string {
	c, err := open(d.info.Endpoint)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.token = d.info.Token
	var list jsontext.Value
	if err := c.call("list_runtimes", nil, &list); err != nil {
		return err.Error()
	}
	return string(list)
}
