package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// Shape of a round of the crash suite of agents.
const (
	roundsPerLoad = 10              // after so many, clients stop and all that they were told is compared
	longestAgent  = 60              // events that clients hear before an agent is killed
	armedAgent    = 400             // likewise, before its failpoint counts as not met
	patientAgent  = 5 * time.Second // the same on a machine too busy for that many
)

// TestCrashOfAgents kills agents again and again, at random moments and at every
// failpoint on their way to an answer, under a daemon that lives on, and checks that
// nobody is hurt but the turns that they ran.
func TestCrashOfAgents(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("takes a while")
	case runtime.GOOS != "linux":
		t.Skip("needs to see the environment of other processes, as Linux shows it")
	}
	r := newAgentCrash(t)
	for n := range *crashRounds {
		if n%roundsPerLoad == 0 {
			r.pause()
			r.resume()
		}
		r.round(n)
		r.progress(n)
		if t.Failed() {
			break
		}
	}
	r.pause()
	if t.Failed() {
		return
	}
	for _, b := range r.bystanders {
		b.goesOn(t)
	}
	r.outcomes()
	r.leaveCleanly(r.d)
	r.last()
	r.points.judge(t)
	r.summary(inAgents)
}

// agentCrash is a run of the crash suite of agents.
type agentCrash struct {
	*crash
	d          *daemon
	operator   *conn
	graveyard  graveyard
	sitters    map[string]*sitter // by provider
	bystanders []*bystander

	load sync.WaitGroup
	life *life // nil = clients pause
}

func newAgentCrash(t *testing.T) *agentCrash {
	r := &agentCrash{crash: newCrash(t), sitters: map[string]*sitter{}}
	r.arm("")
	r.d = start(t, r.home, crashDurations)
	r.graveyard.log = r.d.log
	r.operator = r.d.operator()
	for _, provider := range []string{"opencode", "cursor"} {
		r.bystanders = append(r.bystanders, newBystander(t, r.d, provider))
		r.sitters[provider] = &sitter{page: newPage(t, r.d, object{"provider": provider}), provider: provider}
	}
	return r
}

// arm makes agents that start from now on die at a failpoint; "" = nowhere.
func (r *agentCrash) arm(point string) {
	env := object{"PEDELEC_SCRIPTED_STATE": r.notes.dir}
	if point != "" {
		env["PEDELEC_SCRIPTED_FAILPOINTS"] = fmt.Sprintf("%s=kill@%d", point, r.hit(point))
	}
	agent := object{"command": []string{binary, "agent", "--scripted"}, "env": env}
	b, err := json.Marshal(object{
		"defaultProvider": "opencode", "allowedOrigins": []string{crashOrigin},
		"providerSettings": object{"opencode": agent, "cursor": agent},
	})
	if err != nil {
		r.Fatal(err)
	}
	path := filepath.Join(r.home, "settings.json")
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		r.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // the daemon never sees half of it
		r.Fatal(err)
	}
}

// resume puts the clients' load on the daemon.
func (r *agentCrash) resume() {
	r.life = newLife(r.d.info)
	for _, cl := range r.clients {
		r.load.Go(func() { cl.run(r.life) })
	}
}

// pause ends the load and compares what clients know with what the daemon says.
func (r *agentCrash) pause() {
	if r.life == nil {
		return
	}
	r.life.end()
	r.load.Wait()
	r.life = nil
	r.lies("under load")
	c := r.d.operator()
	defer c.Close()
	if err := r.compare(c, false); err != nil {
		r.Error(err)
	}
	for _, cl := range r.clients {
		cl.retired = nil
	}
	for _, b := range r.bystanders {
		b.noticedNothing(r.T)
	}
}

// round kills one agent and looks at what that does.
func (r *agentCrash) round(n int) {
	if n%3 == 0 {
		r.killOne()
	} else {
		r.dieAt()
	}
	if r.d.left() {
		r.Fatalf("the daemon left: %v", r.d.exitErr)
	}
	r.nothingIsLeft()
}

// killOne kills an agent at a random moment, with a turn of a sitter on it.
func (r *agentCrash) killOne() {
	s := r.sitters[crashProviders[r.rng.IntN(len(crashProviders))]]
	pid := s.sit(r.notes)
	until := r.heard.Load() + r.rng.Int64N(longestAgent)
	if err := waitFor(patientAgent, "so many events", func() (bool, error) { return r.heard.Load() >= until, nil }); err != nil {
		r.Log(err)
	}
	if err := killProcess(pid); err != nil {
		r.Fatal(err)
	}
	r.kills++
	s.isTold()
	if err := waitFor(patience, "the daemon to notice", func() (bool, error) { return r.graveyard.has(pid) }); err != nil {
		r.Error(err)
	}
}

// dieAt lets agents die at the next failpoint. Agents that run already have none:
// the daemon replaces them, since their settings are others now.
func (r *agentCrash) dieAt() {
	point := r.points.next(r.crash, inAgents)
	before, err := r.graveyard.killed()
	if err != nil {
		r.Fatal(err)
	}
	r.arm(point)
	until := r.heard.Load() + armedAgent
	now := before
	err = waitFor(patientAgent, "an agent to die at "+point, func() (bool, error) {
		now, err = r.graveyard.killed()
		return now > before || r.heard.Load() >= until, err
	})
	r.arm("")
	r.kills += now - before
	r.points.count(point, now > before)
	if err != nil {
		r.Log(err)
	}
}

// nothingIsLeft checks that no process outlives the runtime that it belongs to, and
// that the daemon has buried all of its own.
func (r *agentCrash) nothingIsLeft() {
	err := waitFor(orphanLimit, "the rest of dead agents to be gone", func() (bool, error) {
		// Which are dead is asked first, so that what was started since is none of it.
		if err := r.graveyard.look(); err != nil {
			return false, err
		}
		return len(r.graveyard.risen(r.home)) == 0 && len(zombies(r.d.cmd.Process.Pid)) == 0, nil
	})
	if err != nil {
		r.Errorf("%v: processes %v of dead agents, zombies %v", err, r.graveyard.risen(r.home), zombies(r.d.cmd.Process.Pid))
	}
}

// outcomes checks that operations ended in no other way than the death of an agent,
// and what clients asked for, can bring about.
func (r *agentCrash) outcomes() {
	possible := []string{
		"", "OPERATION_CANCELLED", "THREAD_ENDED", "PROVIDER_REQUEST_FAILED",
		"PROVIDER_RUNTIME_DISCONNECTED", "PROVIDER_RUNTIME_START_FAILED",
	}
	for code, n := range r.tally.outcomes() {
		if !slices.Contains(possible, code) {
			r.Errorf("%d operations ended with %s", n, code)
		}
	}
}

// sitter is a page whose turn never ends by itself: it is on an agent when that is
// killed.
type sitter struct {
	*page
	provider string
	op       string
}

// sit begins a turn and returns the process that got it.
func (s *sitter) sit(notes *agentNotes) (pid int) {
	s.t.Helper()
	for {
		s.count++
		s.op = fmt.Sprintf("sitter-%s-%d", s.provider, s.count)
		s.must(s.c.call("send_text", object{"threadId": s.id, "operationId": s.op, "message": marked("stream 1 ; hang", s.op)}, nil))
		if e := s.awaitAny("assistant_delta", "operation_completed"); e.Type == "assistant_delta" {
			break
		}
		s.recover() // its agent was still one that dies at a failpoint
	}
	s.must(notes.catchUp())
	got := notes.turns[s.op]
	if len(got) != 1 {
		s.t.Fatalf("operation %s was handed to agents %d times", s.op, len(got))
	}
	return got[0].pid
}

// isTold waits until the sitter hears that its agent is gone.
func (s *sitter) isTold() {
	s.t.Helper()
	e := s.awaitAny("operation_completed")
	if got := codeOf(asError(e.Err)); e.OperationID != s.op || e.Success || got != "PROVIDER_RUNTIME_DISCONNECTED" {
		s.t.Errorf("the turn %s of an agent that was killed ended so: %s", s.op, e.raw)
	}
	s.recover()
}

// recover leaves the error in which the turn has left the thread.
func (s *sitter) recover() {
	s.t.Helper()
	s.must(s.c.call("end_thread", object{"threadId": s.id}, nil))
	s.must(s.c.call("resume_thread", object{"threadId": s.id}, nil))
}

// awaitAny takes events up to the next of one of the types.
func (s *sitter) awaitAny(types ...string) event {
	s.t.Helper()
	events, err := s.c.until(patience, func(e event) bool { return slices.Contains(types, e.Type) })
	if err != nil {
		s.t.Fatalf("waiting for %v: %v", types, err)
	}
	return events[len(events)-1]
}

// bystander is a thread that had a turn and now does nothing, while the agents that
// hold its conversation die.
type bystander struct {
	*page
	session string
	seq     uint64
}

func newBystander(t *testing.T, d *daemon, provider string) *bystander {
	t.Helper()
	b := &bystander{page: newPage(t, d, object{"provider": provider})}
	b.session = sessionOf(b.says(b.send("whoami")))
	b.seq = b.snapshot().LatestSeq
	return b
}

// sessionOf is the first word of what an agent says of itself.
func sessionOf(said string) string {
	session, _, _ := strings.Cut(said, " ")
	return session
}

func (b *bystander) snapshot() (s snapshot) {
	b.t.Helper()
	b.must(b.c.call("thread_snapshot", object{"threadId": b.id}, &s))
	return s
}

// noticedNothing fails the test if anything happened to the thread.
func (b *bystander) noticedNothing(t *testing.T) {
	t.Helper()
	if s := b.snapshot(); s.Status != "idle" || s.LatestSeq != b.seq {
		t.Errorf("an idle thread is %s at event %d; it was idle at %d", s.Status, s.LatestSeq, b.seq)
	}
}

// goesOn has a turn and finds the same conversation.
func (b *bystander) goesOn(t *testing.T) {
	t.Helper()
	said := b.says(b.send("whoami"))
	if sessionOf(said) != b.session || !strings.Contains(said, " turn=2 ") {
		t.Errorf("the conversation of an idle thread was %s, and after all the deaths it is: %s", b.session, said)
	}
}
