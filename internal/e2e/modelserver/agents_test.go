package modelserver

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// events posts a request and returns what the answer's events say: their types in
// order, the text, and the tool that is asked for.
func events(t *testing.T, s *Server, path, body string) (kinds []string, text, tool string, status int) {
	t.Helper()
	res, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string `json:"type"`
			Delta any    `json:"delta"`
			Item  struct {
				Type      string `json:"type"`
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
				Arguments string `json:"arguments"`
				Input     string `json:"input"`
			} `json:"item"`
			Block struct {
				Name string `json:"name"`
			} `json:"content_block"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		if len(kinds) == 0 || kinds[len(kinds)-1] != e.Type {
			kinds = append(kinds, e.Type)
		}
		switch delta := e.Delta.(type) {
		case string:
			text += delta
		case map[string]any:
			for _, member := range []string{"text", "partial_json"} {
				piece, _ := delta[member].(string)
				text += piece
			}
		}
		if e.Item.Name != "" {
			tool = strings.Join([]string{e.Item.Type, e.Item.Namespace, e.Item.Name, e.Item.Arguments + e.Item.Input}, " ")
		}
		if e.Block.Name != "" {
			tool = e.Block.Name
		}
	}
	return kinds, text, tool, res.StatusCode
}

func TestResponsesDoWhatTheMarkerSays(t *testing.T) {
	s := startServer(t)
	const tools = `"tools":[{"type":"function","name":"exec_command"},{"type":"custom","name":"exec"},{"type":"namespace","name":"page","tools":[{"type":"function","name":"add"}]}]`
	tests := []struct{ text, more, want, tool string }{
		{`hello`, ``, `You said: hello`, ``},
		{`[[unicode]]`, ``, `καλημέρα 🚲🚲 größer`, ``},
		{`[[tool exec_command {\"cmd\":\"ls\"}]]`, ``, ``, `function_call  exec_command {"cmd":"ls"}`},
		{`[[tool add {\"a\":1}]]`, ``, ``, `function_call page add {"a":1}`},
		{`[[tool exec text]]`, ``, ``, `custom_tool_call  exec text`},
		{`[[tool add {}]]`, `,{"type":"function_call_output","call_id":"c","output":"3"}`, `the tool is done`, ``},
	}
	for _, tt := range tests {
		body := `{"model":"m","stream":true,"instructions":"be kind",` + tools + `,"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"` + tt.text + `"}]}` + tt.more + `]}`
		kinds, text, tool, status := events(t, s, "/v1/responses", body)
		if text != tt.want || tool != tt.tool || status != 200 || kinds[len(kinds)-1] != "response.completed" {
			t.Errorf("%s: %d %v, %q, %q", tt.text, status, kinds, text, tool)
		}
	}
	r := s.Requests()[0]
	if r.LastUserText() != "hello" || !slices.Equal(r.Tools, []string{"exec_command", "exec", "add"}) || r.Messages[0] != (Message{"system", "be kind"}) {
		t.Errorf("recorded %+v", r)
	}
	body := `{"model":"m",` + tools + `,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"[[error 429]]"}]}]}`
	if _, _, _, status := events(t, s, "/v1/responses", body); status != 429 {
		t.Errorf("status %d", status)
	}
}

func TestMessagesDoWhatTheMarkerSays(t *testing.T) {
	s := startServer(t)
	tests := []struct{ text, more, want, tool string }{
		{`hello`, ``, `You said: hello`, ``},
		{`[[unicode]]`, ``, `καλημέρα 🚲🚲 größer`, ``},
		{`[[tool Bash {\"command\":\"ls\"}]]`, ``, `{"command":"ls"}`, `Bash`},
		{`[[tool Bash {}]]`, `,{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"3"}]}`, `the tool is done`, ``},
	}
	for _, tt := range tests {
		body := `{"model":"m","stream":true,"system":[{"type":"text","text":"be kind"}],"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"` + tt.text + `"}]}` + tt.more + `]}`
		kinds, text, tool, status := events(t, s, "/v1/messages?beta=true", body)
		if text != tt.want || tool != tt.tool || status != 200 || kinds[len(kinds)-1] != "message_stop" {
			t.Errorf("%s: %d %v, %q, %q", tt.text, status, kinds, text, tool)
		}
	}
	if r := s.Requests()[0]; r.LastUserText() != "hello" || r.Messages[0] != (Message{"system", "be kind"}) {
		t.Errorf("recorded %+v", r)
	}
	body := `{"model":"m","tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"[[error 401]]"}]}`
	if _, _, _, status := events(t, s, "/v1/messages", body); status != 401 {
		t.Errorf("status %d", status)
	}
	for path, want := range map[string]string{"/v1/messages": `"text":"A title"`, "/v1/messages/count_tokens": `"input_tokens":100`} {
		res, err := http.Post(s.URL+path, "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: %s", path, text)
		}
	}
}
