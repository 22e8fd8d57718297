package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// queuedCalls is how many calls wait behind the one that is out.
const queuedCalls = 16

func TestParallelCallsAreServedOneByOneUpToTheLimit(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	const calls = 20
	all := p.callAtOnce(calls, "ask", func(n int) string { return fmt.Sprintf(`{"n":%d}`, n) })
	for range calls - queuedCalls - 1 {
		if o := <-all.outcomes; codeOf(o.err) != "PENDING_TOOL_REQUEST_EXISTS" {
			t.Errorf("a call over the limit got %s, %v", o.result, o.err)
		}
	}
	p.serve(queuedCalls + 1)
	for range queuedCalls + 1 {
		o := <-all.outcomes
		if want := fmt.Sprintf(`{"n":%d}`, o.n); o.err != nil || string(o.result) != want {
			t.Errorf("call %d got %s, %v", o.n, o.result, o.err)
		}
	}
	all.waiting.Wait()
}

func TestEqualCallsAreOne(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	// One that comes late finds an answer that nobody is known to have read, since
	// all connections stay open: it gets the same.
	spellings := []string{`{"a":1,"b":{"c":[1,2],"d":null}}`, `{"b":{"d":null,"c":[1.0,2]},"a":1e0}`, ` { "b" : {"c":[10e-1,2.00], "d":null}, "a":1.0 } `}
	all := p.callAtOnce(20, "ask", func(n int) string { return spellings[n%len(spellings)] })
	p.answer(p.call(), `"once"`)
	for range 20 {
		if o := <-all.outcomes; o.err != nil || string(o.result) != `"once"` {
			t.Errorf("call %d got %s, %v", o.n, o.result, o.err)
		}
	}
	all.waiting.Wait()
	p.quiet("tool_call")
}

// quiet fails the test if an event of this type has come and was not taken.
func (p *page) quiet(kind string) {
	p.t.Helper()
	p.must(p.c.call("ping", nil, nil))
	for _, e := range p.c.events {
		if e.Type == kind {
			p.t.Errorf("there came %s", e.raw)
		}
	}
}

func TestResultsReachTheCallerByteForByte(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	// Written by hand, since an encoder would write some of it in other ways.
	const result = `{"n":1.0e+2,"big":123456789012345678901234567890.10,"s":"<&>\u2028 größer 🚲","deep":[[[{}]]],"e":-0.0}`
	all := p.callAtOnce(1, "ask", func(int) string { return `{"n":1.50}` })
	a := p.call()
	if string(a.Args) != `{"n":1.50}` {
		t.Errorf("the page gets the arguments as %s", a.Args)
	}
	submitter := p.d.dial()
	p.must(submitter.send(fmt.Appendf(nil, `{"requestId":"s","type":"submit_tool_result","payload":{"threadId":%q,"requestId":%q,"result": %s }}`+"\n", p.id, a.RequestID, result)))
	told := p.await("tool_result")
	o := <-all.outcomes
	all.waiting.Wait()
	if o.err != nil || string(o.result) != result {
		t.Errorf("got %s, %v; want %s", o.result, o.err, result)
	}
	if !strings.Contains(string(told.raw), `"result":`+result) {
		t.Errorf("the event is %s", told.raw)
	}
}

func TestCallOfAKilledCommandIsJoinedOrReplayed(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	killed := func(args string) asked {
		cmd, _ := p.startCLI("tool-call", "ask", args)
		a := p.call()
		p.must(cmd.Process.Kill())
		_ = cmd.Wait() // killed
		return a
	}

	t.Log("killed and repeated before the answer: the request is the same")
	a := killed(`{"n":1}`)
	again, out := p.startCLI("tool-call", "ask", `{"n":1.0}`)
	p.answer(a, `"joined"`)
	if got := finishCLI(t, again, out); !got.OK || string(got.Result) != `"joined"` {
		t.Errorf("the repetition got %+v", got)
	}

	t.Log("killed, answered, repeated: the answer is given again")
	a = killed(`{"n":2}`)
	p.answer(a, `"replayed"`)
	again, out = p.startCLI("tool-call", "ask", `{"n":2}`)
	if got := finishCLI(t, again, out); !got.OK || string(got.Result) != `"replayed"` {
		t.Errorf("the repetition got %+v", got)
	}
	p.quiet("tool_call")

	t.Log("a command that got its answer has it; the same call is a new one")
	again, out = p.startCLI("tool-call", "ask", `{"n":2}`)
	p.answer(p.call(), `"new"`)
	if got := finishCLI(t, again, out); !got.OK || string(got.Result) != `"new"` {
		t.Errorf("the next call got %+v", got)
	}
}

func TestCommandOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	p := newPage(t, start(t, newHome(t)), nil)
	p.busy()
	cmd, out := p.startCLI("tool-call", "ask", "{}")
	p.call()
	p.d.kill()
	if got := finishCLI(t, cmd, out); got.OK || got.Err == nil || got.Err.Message == "" {
		t.Errorf("a command whose daemon was killed says %+v", got)
	}
	cmd, out = p.startCLI("tool-spec", "ask")
	if got := finishCLI(t, cmd, out); got.OK || got.Err == nil || got.Err.Message == "" {
		t.Errorf("a command without a daemon says %+v", got)
	}
}

func TestCallOutlastsTheSilenceLimit(t *testing.T) {
	t.Parallel()
	const silence = time.Second
	d := start(t, newHome(t), "PEDELEC_DURATIONS=silence="+silence.String()+";tool-progress=100ms")
	p := newPage(t, d, nil)
	op := p.send(`call ask {}`)
	a := p.call()
	if events, err := p.c.until(2*silence, func(event) bool { return true }); err != errTimeout {
		t.Fatalf("while the page thinks there came %s, %v", kinds(events), err)
	}
	p.answer(a, `"at last"`)
	if got := p.says(op); got != `"at last"` {
		t.Errorf("the agent says %q", got)
	}

	t.Log("without a call the same silence ends the turn")
	op = p.send("hang")
	events := p.finish(op)
	if code := codeOf(asError(events[len(events)-1].Err)); code != "PROVIDER_TIMEOUT" {
		t.Errorf("a silent turn ended with %s", code)
	}
}
