package modelserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/pedelec/pedelec-core/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func startServer(t *testing.T) *Server {
	t.Helper()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// ask sends a user text with tools on offer and returns the response.
func ask(ctx context.Context, t *testing.T, s *Server, text, more string) *http.Response {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"bash"}}],"messages":[` +
		`{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"text","text":` + string(quoted) + `}]}` + more + `]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// spoken reads a stream to its end and returns its text, the tool it asks for and
// whether it ended properly.
func spoken(t *testing.T, r io.Reader) (text, tool string, done bool) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return text, tool, true
		}
		var f struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					ToolCalls []struct {
						Function struct {
							Name      string `json:"name"`
							Arguments string `json:"arguments"`
						} `json:"function"`
					} `json:"tool_calls"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			t.Fatalf("frame %q: %v", data, err)
		}
		for _, c := range f.Choices {
			text += c.Delta.Content
			for _, call := range c.Delta.ToolCalls {
				tool = call.Function.Name + " " + call.Function.Arguments
			}
		}
	}
	return text, tool, false
}

func TestChatDoesWhatTheMarkerSays(t *testing.T) {
	tests := map[string]struct {
		text, more string
		want, tool string
		cut        bool
	}{
		"repeats the last line":          {text: "rules\n\nhello", want: "You said: hello"},
		"acknowledges a preparation":     {text: "Answer PEDELEC_PREPARED and nothing else.", want: "PEDELEC_PREPARED"},
		"big":                            {text: "[[big]]", want: strings.Repeat("b", bigChunks*bigChunk)},
		"unicode":                        {text: "[[unicode]]", want: "καλημέρα 🚲🚲 größer"},
		"cut":                            {text: "[[cut]]", want: "begun and ", cut: true},
		"tool":                           {text: `[[tool bash {"command":"ls"}]]`, tool: `bash {"command":"ls"}`},
		"tool, once its result is there": {text: `[[tool bash {}]]`, more: `,{"role":"assistant","content":null},{"role":"tool","content":"out"}`, want: "the tool is done"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			res := ask(t.Context(), t, s, tt.text, tt.more)
			text, tool, done := spoken(t, res.Body)
			if text != tt.want || tool != tt.tool || done == tt.cut {
				t.Errorf("got %.80q, tool %q, done %v", text, tool, done)
			}
		})
	}
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	s := startServer(t)
	for text, want := range map[string]int{"[[error 429]]": 429, "[[error 500]]": 500, "[[nonsense]]": 400} {
		res := ask(t.Context(), t, s, text, "")
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", text, res.StatusCode, want)
		}
	}
}

func TestSideRequestsAreAnsweredAtOnce(t *testing.T) {
	s := startServer(t)
	res, err := http.Post(s.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"[[hang]]"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _, done := spoken(t, res.Body); text != "A title" || !done {
		t.Errorf("got %q, done %v", text, done)
	}
}

func TestRequestsAreRecordedAndAbortsNoticed(t *testing.T) {
	s := startServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ask(ctx, t, s, "[[hang]]", "")
	wait, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	r, err := s.Await(wait, func(r Request) bool { return r.LastUserText() == "[[hang]]" })
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Messages) != 2 || r.Messages[0].Role != "system" || len(r.Tools) != 1 || r.Aborted {
		t.Errorf("recorded %+v", r)
	}
	cancel()
	if _, err := s.Await(wait, func(r Request) bool { return r.Aborted }); err != nil {
		t.Error(err)
	}
	gone, stopNow := context.WithCancel(t.Context())
	stopNow()
	if _, err := s.Await(gone, func(Request) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that is given up returns %v", err)
	}
}
