package ipc

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestNestingUpToTheLimit(t *testing.T) {
	s := bareServer(t)
	line := func(levels int) string {
		return `{"requestId":"n","type":"ping","payload":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	if req := s.decodeRequest([]byte(line(MaxNesting)), proof{}); req.refusal != nil {
		t.Errorf("%d levels: %v", MaxNesting, req.refusal)
	}
	for _, levels := range []int{MaxNesting + 1, 200, 400_000} {
		req := s.decodeRequest([]byte(line(levels)), proof{})
		if req.refusal == nil || req.refusal.Code != fault.IPCUnavailable || req.id != "n" {
			t.Errorf("%d levels: %+v", levels, req)
		}
	}
	wide := `{"requestId":"w","type":"ping","payload":[` + strings.TrimSuffix(strings.Repeat("[],", 1000), ",") + `,"[[[[{{{\"[["]}`
	if req := s.decodeRequest([]byte(wide), proof{}); req.refusal != nil {
		t.Errorf("a wide value: %v", req.refusal)
	}
}

func TestFieldsThatAreTooLong(t *testing.T) {
	s := bareServer(t)
	for name, c := range map[string]struct {
		line, id string
	}{
		"requestId":        {`{"requestId":"` + strings.Repeat("i", 513) + `","type":"ping"}`, ""},
		"callerOrigin":     {`{"requestId":"i","type":"ping","callerOrigin":"` + strings.Repeat("o", 513) + `"}`, "i"},
		"callerSdkVersion": {`{"requestId":"i","type":"ping","callerSdkVersion":"` + strings.Repeat("v", 65) + `"}`, "i"},
	} {
		req := s.decodeRequest([]byte(c.line), proof{})
		if req.refusal == nil || req.refusal.Code != fault.IPCUnavailable || req.id != c.id {
			t.Errorf("%s: %+v", name, req)
		}
	}
	longest := `{"requestId":"` + strings.Repeat("i", 512) + `","type":"ping","callerOrigin":"` + strings.Repeat("o", 512) + `","callerSdkVersion":"` + strings.Repeat("v", 64) + `"}`
	if req := s.decodeRequest([]byte(longest), proof{}); req.refusal != nil {
		t.Errorf("the longest allowed: %v", req.refusal)
	}
}

func TestTheRequestIDOfABrokenLine(t *testing.T) {
	for line, want := range map[string]string{
		`{"requestId":"a","payload":{"x`:                   "a",
		`{"type":"t","payload":[1,{}],"requestId":"b",`:    "b",
		`{"payload":{"requestId":"inner"},"requestId":"c"`: "c",
		`{"payload":"unterminated,"requestId":"d"}`:        "",
		`["requestId","e"]`:                                "",
		`{"requestId":7}`:                                  "",
		`{"requestId":" "}`:                                "",
		`{"requestId`:                                      "",
		``:                                                 "",
	} {
		if got, found := findRequestID([]byte(line)); got != want || found != (want != "") {
			t.Errorf("%s: %q, %v, want %q", line, got, found, want)
		}
	}
}

func FuzzRequestLine(f *testing.F) {
	for _, seed := range []string{
		`{"requestId":"a","type":"ping"}`,
		`{"requestId":"a","type":"create_thread","payload":{"provider":"codex","skills":{"guidance":"","tools":[{"name":"n","description":"d","argsSchema":{},"timeoutMs":1}]}}}`,
		`{"requestId":"a","type":"subscribe_thread","payload":{"threadId":"t","afterSeq":18446744073709551615}}`,
		`{"requestId":"a","type":"list_threads","authToken":"` + testToken + `","payload":{"limit":1,"status":"idle"}}`,
		`{"requestId":"\ud800"}`, "\xff", `[[[[`, `{"requestId":"a","requestId":"b"}`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	for _, line := range corpusLines(f) {
		f.Add(line)
	}
	s := bareServer(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		c := &call{server: s, subs: newSubscriptions(nil), to: &conn{}}
		c.subs.open = func(int) {}
		req := s.decodeRequest(line, proof{})
		c.caller = req.caller
		out, code := s.answer(t.Context(), req, c, nil)
		if !strings.HasSuffix(string(out), "\n") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("not one line: %q", out)
		}
		if !jsontext.Value(out).IsValid() {
			t.Errorf("not JSON: %q", out)
		}
		if code == fault.Internal {
			t.Errorf("INTERNAL for %q: %s", line, out)
		}
		if len(out) > MaxOutLineBytes {
			t.Errorf("%d bytes", len(out))
		}
		if c.answered != nil {
			c.answered(false)
		}
	})
}
