package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// toolRounds is how many calls are measured, and as many pairs of commits.
const toolRounds = 1_000

// toolOverhead is what the daemon may add to its two commits.
const toolOverhead = 500 * time.Microsecond

// benchTools measures a call of a frontend tool from the agent's request to its
// answer, with a page that answers at once.
func benchTools(t *testing.T, r *report) {
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	p.must(p.c.call("unsubscribe_thread", object{"threadId": p.id}, nil)) // another socket listens below
	sides := newToolSides(t, p.d, p.id)
	db, err := bolt.Open(filepath.Join(t.TempDir(), "raw.db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var calls, commits samples
	for i := range toolRounds { // in turns, so that both meet the same noise
		commits = append(commits, twoCommits(t, db, i))
		took, err := sides.roundTrip(i)
		p.must(err)
		calls = append(calls, took)
	}
	a, b := calls.median(), commits.median()
	r.add(figure{
		id: "N9", what: "frontend tool round trip added by the daemon, p50", value: us(a), baseline: us(b) + ", two bbolt commits",
		ratio: ratio(a, b), target: "≤ baseline + 0.5 ms", reached: a <= b+toolOverhead,
	})
}

// toolSides are the two connections of a call, without anything between the test
// and the sockets.
type toolSides struct {
	page, agent             net.Conn
	fromDaemon, answerLines *bufio.Reader // of page and agent
	id                      string
}

func newToolSides(t *testing.T, d *daemon, id string) *toolSides {
	t.Helper()
	s := &toolSides{id: id}
	s.page, s.fromDaemon = listen(t, d, id)
	agent, err := net.Dial("tcp", d.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	s.agent, s.answerLines = agent, bufio.NewReader(agent)
	return s
}

// roundTrip makes one call and answers it.
func (s *toolSides) roundTrip(n int) (time.Duration, error) {
	call := fmt.Appendf(nil, `{"requestId":"c","type":"tool_call","payload":{"threadId":%q,"toolName":"ask","args":{"n":%d}}}`+"\n", s.id, n)
	began := time.Now()
	if _, err := s.agent.Write(call); err != nil {
		return 0, err
	}
	const mark = `"requestId":"toolreq_`
	var request []byte
	for request == nil {
		line, err := s.fromDaemon.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if at := bytes.Index(line, []byte(mark)); at >= 0 && bytes.Contains(line, []byte(`"type":"tool_call"`)) {
			request, _, _ = bytes.Cut(line[at+len(`"requestId":"`):], []byte(`"`))
			request = bytes.Clone(request)
		}
	}
	submit := fmt.Appendf(nil, `{"requestId":"s","type":"submit_tool_result","payload":{"threadId":%q,"requestId":%q,"result":{"answer":"yes"}}}`+"\n", s.id, request)
	if _, err := s.page.Write(submit); err != nil {
		return 0, err
	}
	answer, err := s.answerLines.ReadSlice('\n')
	took := time.Since(began)
	if err == nil && !bytes.Contains(answer, []byte(`"result":{"answer":"yes"}`)) {
		err = fmt.Errorf("the call got %s", clip(answer))
	}
	return took, err
}

// twoCommits writes twice what a command writes.
func twoCommits(t *testing.T, db *bolt.DB, n int) time.Duration {
	t.Helper()
	began := time.Now()
	for half := range 2 {
		if err := db.Update(func(tx *bolt.Tx) error { return rawPut(tx, fmt.Sprintf("t%016d", n%16), uint64(2*n+half)) }); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began)
}
