package ipc

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
)

const (
	siteA = "https://a.example"
	siteB = "https://b.example"

	askApproval = `{"requestId":"ask","type":"request_approval"}`
)

// decide sends a decision as the operator does.
func (r *rig) decide(t testing.TB, origin, decision string) string {
	t.Helper()
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"d","type":"decide_origin","authToken":%q,"payload":{"origin":%q,"decision":%q}}`, testToken, origin, decision))
	return p.line()
}

// origin returns how the operator sees an origin.
func (r *rig) origin(t testing.TB, origin string) OriginInfo {
	t.Helper()
	p := r.dial(t)
	p.send(fmt.Sprintf(`{"requestId":"l","type":"list_origins","authToken":%q}`, testToken))
	var answer struct {
		Result OriginList `json:"result"`
	}
	decode(t, p.line(), &answer)
	for _, info := range answer.Result.Origins {
		if info.Origin == origin {
			return info
		}
	}
	return OriginInfo{}
}

// awaitWaiting returns when so many requests of an origin wait.
func (r *rig) awaitWaiting(t testing.TB, origin string, count int) {
	t.Helper()
	for r.origin(t, origin).Waiting != count {
	}
}

func TestAPageThatNobodyApprovedMayOnlyPingAndAsk(t *testing.T) {
	r := newRig(t)
	id := r.createThread(t)
	header := page(siteA)
	header.Set("Authorization", "Bearer "+testToken)
	for name, h := range map[string]http.Header{"a page": page(siteA), "a page that has got hold of the token": header} {
		t.Run(name, func(t *testing.T) {
			p := r.dialWeb(t, h)
			p.send(ping("p"))
			hasAll(t, p.line(), `"ok":true`)
			payloads := map[string]string{
				"create_thread": `{"provider":"codex"}`, "send_text": `{"threadId":"` + id + `","message":""}`,
				"tool_call": `{"threadId":"` + id + `","toolName":"x","args":{}}`, "tool_spec": `{"threadId":"` + id + `","toolName":"x"}`,
				"submit_tool_result": `{"threadId":"` + id + `","requestId":"r"}`, "create_asset_upload": `{"threadId":"` + id + `","filename":"f","sizeBytes":1}`,
				"create_asset_download": `{"threadId":"` + id + `","path":"p"}`, "backup": `{"path":"/x"}`,
				"decide_origin": `{"origin":"` + siteA + `","decision":"approve"}`,
			}
			for name := range routes {
				if name == "ping" || name == "request_approval" {
					continue
				}
				payload := payloads[name]
				if payload == "" {
					payload = `{"threadId":"` + id + `"}`
				}
				p.send(fmt.Sprintf(`{"requestId":%q,"type":%q,"callerOrigin":%q,"authToken":%q,"payload":%s}`, name, name, siteA, testToken, payload))
				hasAll(t, p.line(), fmt.Sprintf(`{"requestId":%q,"ok":false,"error":{"code":"ORIGIN_NOT_APPROVED"`, name), `"details":{"origin":"https://a.example"}`)
			}
		})
	}
}

func TestAnApprovedPageActsAsTheOriginThatItsBrowserStates(t *testing.T) {
	r := newRig(t)
	r.settings.allow("HTTPS://A.example:443/", siteB, "nonsense")
	ownerless := r.createThread(t)
	a, b := r.dialWeb(t, page(siteA)), r.dialWeb(t, page(siteB))

	// Whatever it states besides, and with the token too.
	a.send(fmt.Sprintf(`{"requestId":"c","type":"create_thread","callerOrigin":%q,"authToken":%q,"payload":{"provider":"codex"}}`, siteB, testToken))
	hasAll(t, a.line(), `"ok":true`)
	ids := r.ids()
	own := ids[len(ids)-1]
	r.threads.mu.Lock()
	owner := r.threads.threads[own].owner
	r.threads.mu.Unlock()
	if owner != siteA {
		t.Errorf("the thread belongs to %q", owner)
	}
	a.send(snapshotOf("own", own), snapshotOf("ownerless", ownerless))
	answers := a.line() + a.line()
	hasAll(t, answers, `"requestId":"own","ok":true`, `"requestId":"ownerless","ok":false,"error":{"code":"THREAD_ACCESS_DENIED"`)
	b.send(snapshotOf("other", own))
	hasAll(t, b.line(), "THREAD_ACCESS_DENIED")
	for _, request := range []string{"shutdown", "list_origins", "list_runtimes", "refresh_providers"} {
		a.send(fmt.Sprintf(`{"requestId":"o","type":%q,"authToken":%q}`, request, testToken))
		hasAll(t, a.line(), "IPC_UNAUTHORIZED")
	}
	a.send(`{"requestId":"l","type":"list_threads"}`, askApproval)
	hasAll(t, a.line()+a.line(), `"requestId":"l","ok":true`, `"requestId":"ask","ok":true,"result":{"approved":true}`)
	r.threads.mu.Lock()
	last := r.threads.callers[len(r.threads.callers)-1]
	r.threads.mu.Unlock()
	if !last.OriginVerified || !last.OriginStated || last.Token || last.Origin != siteA {
		t.Errorf("the caller is %+v", last)
	}
}

// The tools of a thread are its own page's; who calls them is an agent, for which
// no owner is compared.
func TestAPageMayNotCallTheToolsOfThreadsAsAnAgentDoes(t *testing.T) {
	r := newRig(t)
	r.settings.allow(siteA)
	id := r.createThread(t)
	p := r.dialWeb(t, page(siteA))
	p.send(fmt.Sprintf(`{"requestId":"c","type":"tool_call","payload":{"threadId":%q,"toolName":"paint","args":{}}}`, id))
	hasAll(t, p.line(), `"requestId":"c","ok":false`, "IPC_UNAUTHORIZED")
	p.send(fmt.Sprintf(`{"requestId":"s","type":"tool_spec","payload":{"threadId":%q,"toolName":"paint"}}`, id))
	hasAll(t, p.line(), `"requestId":"s","ok":false`, "IPC_UNAUTHORIZED")
}

func TestPagesWaitUntilTheUserDecides(t *testing.T) {
	for decision, want := range map[string]string{"approve": `"result":{"approved":true}`, "reject": `"code":"APPROVAL_REJECTED"`} {
		t.Run(decision, func(t *testing.T) {
			r := newRig(t)
			one, two, other := r.dialWeb(t, page(siteA)), r.dialWeb(t, page(siteA)), r.dialWeb(t, page(siteB))
			one.send(askApproval)
			r.awaitWaiting(t, siteA, 1) // the log tells of the first
			two.send(askApproval)
			other.send(askApproval)
			r.awaitWaiting(t, siteA, 2)
			one.send(ping("meanwhile"))
			hasAll(t, one.line(), `"requestId":"meanwhile","ok":true`)
			if info := r.origin(t, siteA); info.Decision != "undecided" || info.Connections != 2 || info.DecidedAt != nil {
				t.Errorf("before: %+v", info)
			}
			hasAll(t, r.log.String(), "a web page asks to be approved", siteA)

			hasAll(t, r.decide(t, siteA, decision), `"ok":true`)
			hasAll(t, one.line(), want)
			hasAll(t, two.line(), want)
			if info := r.origin(t, siteA); info.Decision != map[string]string{"approve": "approved", "reject": "rejected"}[decision] || info.Waiting != 0 || info.DecidedAt == nil {
				t.Errorf("after: %+v", info)
			}
			one.send(askApproval) // asking again is answered at once
			hasAll(t, one.line(), want)
			r.awaitWaiting(t, siteB, 1)
		})
	}
}

func TestNobodyDecidesInTime(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Approval = 50 * time.Millisecond })
	p := r.dialWeb(t, page(siteA))
	for range 2 {
		p.send(askApproval)
		hasAll(t, p.line(), `"code":"APPROVAL_TIMEOUT"`, `"details":{"origin":"https://a.example"}`)
	}
	if n := r.origin(t, siteA).Waiting; n != 0 {
		t.Errorf("%d requests wait", n)
	}
}

func TestAPageThatTheSettingsAllowMeanwhileIsLetInAtTheLatest(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Approval = time.Second })
	p := r.dialWeb(t, page(siteA))
	p.send(askApproval)
	r.awaitWaiting(t, siteA, 1)
	r.settings.allow(siteA)
	hasAll(t, p.line(), `"approved":true`)
}

func TestAPageThatLeavesDoesNotWaitAnyMore(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, page(siteA))
	p.send(askApproval)
	r.awaitWaiting(t, siteA, 1)
	_ = p.ws.Close()
	r.awaitWaiting(t, siteA, 0)
}

func TestAShutdownLetsGoOfPagesThatWait(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, page(siteA))
	p.send(askApproval)
	r.awaitWaiting(t, siteA, 1)
	if err := r.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	hasAll(t, p.line(), `"code":"CORE_RUNTIME_UNAVAILABLE"`)
	if code := p.closed(); code != websocket.CloseGoingAway {
		t.Errorf("closed with %d", code)
	}
}

func TestWaitingRequestsAreLimited(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, page(siteA))
	for range MaxWaitingOfOrigin {
		p.send(askApproval)
	}
	r.awaitWaiting(t, siteA, MaxWaitingOfOrigin)
	p.send(`{"requestId":"over","type":"request_approval"}`)
	hasAll(t, p.line(), `"requestId":"over"`, "OVERLOADED")

	o := r.server.origins
	for i := range MaxWaitingOrigins - 1 {
		origin := fmt.Sprintf("https://%d.example", i)
		a, err := o.join(origin)
		if err != nil {
			t.Fatal(err)
		}
		defer o.part(origin, a)
	}
	if _, err := o.join(siteB); !fault.Is(err, fault.Overloaded) {
		t.Errorf("one more origin: %v", err)
	}
}

func TestARevokedOriginLosesItsConnectionsAtOnce(t *testing.T) {
	for _, decision := range []string{"revoke", "reject"} {
		t.Run(decision, func(t *testing.T) {
			r := newRig(t)
			r.decide(t, siteA, "approve")
			r.decide(t, siteB, "approve")
			p, other := r.dialWeb(t, page(siteA)), r.dialWeb(t, page(siteB))
			p.send(`{"requestId":"c","type":"create_thread","payload":{"provider":"codex"}}`)
			p.line()
			id := r.ids()[0]
			p.send(subscribe("s", id))
			p.line()
			r.hold("Snapshot")
			p.send(snapshotOf("slow", id))
			r.awaitEntered("Snapshot", 1)

			hasAll(t, r.decide(t, siteA, decision), `"ok":true`)
			for {
				m, err := p.read()
				if err != nil {
					if code := closeCode(err); code != websocket.ClosePolicyViolation {
						t.Errorf("closed with %v", err)
					}
					break
				}
				if strings.Contains(m, `"ok":true`) {
					t.Errorf("it was told %s", m)
				}
			}
			if n := r.threads.feedCount(id); n != 0 {
				t.Errorf("%d subscriptions are open", n)
			}
			other.send(`{"requestId":"l","type":"list_threads"}`)
			hasAll(t, other.line(), `"ok":true`)
			again := r.dialWeb(t, page(siteA))
			again.send(snapshotOf("x", id))
			hasAll(t, again.line(), "ORIGIN_NOT_APPROVED")
		})
	}
}

func TestAnOriginThatTheSettingsDropLosesItsSubscriptions(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Ping = 10 * time.Millisecond })
	r.settings.allow(siteA)
	p := r.dialWeb(t, page(siteA))
	p.send(`{"requestId":"c","type":"create_thread","payload":{"provider":"codex"}}`)
	p.line()
	p.send(subscribe("s", r.ids()[0]))
	p.line()
	r.settings.allow()
	if code := p.closed(); code != websocket.ClosePolicyViolation {
		t.Errorf("closed with %d", code)
	}
}

func TestWhatTheSettingsAllowIsTakenBackThere(t *testing.T) {
	r := newRig(t)
	r.settings.allow(siteA)
	for _, decision := range []string{"reject", "revoke"} {
		hasAll(t, r.decide(t, siteA, decision), `"code":"INVALID_INPUT"`, "allowedOrigins")
	}
	if info := r.origin(t, siteA); info.Decision != "approved" || !info.BySettings {
		t.Errorf("%+v", info)
	}
}

func TestDecisionsAreDurableBeforeTheyAct(t *testing.T) {
	r := newRig(t)
	p := r.dialWeb(t, page(siteA))
	p.send(askApproval)
	r.awaitWaiting(t, siteA, 1)
	r.origins.mu.Lock()
	r.origins.fail = fault.New(fault.StorageFull, "")
	r.origins.mu.Unlock()
	for _, decision := range []string{"approve", "reject", "revoke"} {
		hasAll(t, r.decide(t, siteA, decision), "STORAGE_FULL")
	}
	if info := r.origin(t, siteA); info.Decision != "undecided" || info.Waiting != 1 {
		t.Errorf("%+v", info)
	}
	r.origins.mu.Lock()
	r.origins.fail = nil
	r.origins.mu.Unlock()
	hasAll(t, r.decide(t, siteA, "approve"), `"ok":true`)
	hasAll(t, p.line(), `"approved":true`)

	// A server that starts on what was stored knows it.
	reopened := openOrigins(r.origins, func() []string { return nil }, zerolog.Nop(), time.Second)
	if !reopened.approved(siteA) || reopened.approved(siteB) {
		t.Error("the decision was not stored")
	}
}

func TestDecisionsThatCannotBeReadCountAsNone(t *testing.T) {
	store := newMemoryOrigins()
	good := decision{approved, testTime}.encode()
	store.values = map[string][]byte{
		siteA: good, "https://empty.example": {}, "https://new.example": {2, 1}, "https://short.example": good[:5],
		"https://odd.example": append([]byte{originVersion, 7}, good[2:]...),
	}
	var log bytes.Buffer
	o := openOrigins(store, func() []string { return nil }, zerolog.New(&log), time.Second)
	if len(o.decided) != 1 || !o.approved(siteA) || !o.decided[siteA].at.Equal(testTime) {
		t.Errorf("%+v", o.decided)
	}
	if n := strings.Count(log.String(), "must ask again"); n != 4 {
		t.Errorf("the log tells of %d: %s", n, log.String())
	}
	store.fail = fault.New(fault.StorageFailed, "")
	if o := openOrigins(store, func() []string { return nil }, zerolog.New(&log), time.Second); o.approved(siteA) {
		t.Error("approved without a store")
	}
}

func TestDecidedOriginsAreLimited(t *testing.T) {
	o := openOrigins(newMemoryOrigins(), func() []string { return nil }, zerolog.Nop(), time.Second)
	for i := range MaxDecidedOrigins {
		if _, err := o.decide(fmt.Sprintf("https://%d.example", i), approved); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.decide(siteA, approved); !fault.Is(err, fault.InvalidInput) {
		t.Errorf("one more: %v", err)
	}
	if _, err := o.decide("https://1.example", rejected); err != nil {
		t.Errorf("another decision about a known one: %v", err)
	}
}

func TestRequireTokenKeepsPagesOut(t *testing.T) {
	r := newRig(t)
	r.settings.requireToken = true
	r.settings.allow(siteA)
	p := r.dialWeb(t, page(siteA))
	for _, request := range []string{ping("p"), askApproval, `{"requestId":"l","type":"list_threads"}`} {
		p.send(request)
		hasAll(t, p.line(), "IPC_UNAUTHORIZED")
	}
	n := r.dialWeb(t, native())
	n.send(ping("p"))
	hasAll(t, n.line(), `"ok":true`)
}
