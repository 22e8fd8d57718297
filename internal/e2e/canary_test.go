package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// canary is a set of secrets and everything that was said where they must not be.
type canary struct {
	mu      sync.Mutex
	secrets map[string]string // name → value
	said    map[string][]byte // place → text
}

func (c *canary) secret(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets[name] = value
}

func (c *canary) heard(place string, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said[place] = append(append(c.said[place], text...), '\n')
}

// check fails the test for each secret that was said somewhere.
func (c *canary) check(t *testing.T) {
	t.Helper()
	for name, value := range c.secrets {
		if len(value) < 16 {
			t.Errorf("%s is %q, so nothing would be shown", name, value)
		}
		for place, text := range c.said {
			if i := bytes.Index(text, []byte(value)); i >= 0 {
				from := max(0, i-200)
				t.Errorf("%s was said in %s: …%s", name, place, text[from:min(len(text), i+len(value)+50)])
			}
		}
	}
	for place, text := range c.said {
		t.Logf("%s: %d bytes", place, len(text))
	}
}

// TestNoSecretIsEverSaid runs a daemon at its most talkative through a whole day
// with many failures, and looks for secrets in all that it said.
func TestNoSecretIsEverSaid(t *testing.T) {
	t.Parallel()
	c := &canary{secrets: map[string]string{}, said: map[string][]byte{}}
	home := newHome(t)
	for _, name := range []string{"the key of ollama", "the key in an agent's environment", "a wrong token"} {
		c.secret(name, fmt.Sprintf("canary%x", name))
	}
	heard, agent := overheard(t, home, object{"PAINT_API_KEY": c.secrets["the key in an agent's environment"]})
	writeSettings(t, home, object{"providerSettings": object{
		"opencode": agent,
		"ollama":   object{"apiKey": c.secrets["the key of ollama"], "baseUrl": "http://127.0.0.1:1", "effortsArgs": object{"default": []string{"--model", "m"}}},
	}})
	d := start(t, home)
	c.secret("the daemon's token", d.info.Token)
	day := &canaryDay{canary: c, t: t, d: d, heard: heard}
	day.talk()
	day.transfer()
	day.refuse()
	day.people()
	if code, err := d.stop(); err != nil || code != 0 {
		t.Errorf("the daemon left with %d: %v", code, err)
	}
	again := start(t, home)
	c.secret("the next daemon's token", again.info.Token)
	again.kill()
	for place, path := range map[string]string{"stderr": d.log, "the next stderr": again.log, "core.log": filepath.Join(home, "logs", "core.log")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c.heard(place, text)
	}
	c.check(t)
}

// canaryDay is what happens to the daemon of a canary test.
type canaryDay struct {
	*canary
	t     *testing.T
	d     *daemon
	heard string // file with what the agent was told
}

// call makes a request and keeps its error.
func (y *canaryDay) call(c *conn, kind string, payload any) {
	if err := c.call(kind, payload, nil); err != nil {
		y.answered(kind, err)
	}
}

func (y *canaryDay) answered(kind string, err error) {
	if w, ok := err.(*wireError); ok {
		y.canary.heard("the errors of "+kind, []byte(w.Code+" "+w.Message+" "+string(w.Details)))
		return
	}
	y.t.Errorf("%s: %v", kind, err)
}

// events keeps what a page heard of an operation up to its end.
func (y *canaryDay) events(p *page, op string) {
	for _, e := range p.finish(op) {
		y.canary.heard("events", e.raw)
	}
}

// talk runs turns with tools, and turns that fail in every way.
func (y *canaryDay) talk() {
	p := newPage(y.t, y.d, nil)
	y.events(p, p.send("echo hello"))
	servers := toolServers(y.t, y.heard)
	if len(servers) != 1 {
		y.t.Fatalf("the agent was told of %d tool servers", len(servers))
	}
	y.secret("the secret of a tool server", servers[0].secret)
	op := p.send(`call ask {"n":1}`)
	p.answer(p.call(), `{"yes":true}`)
	y.events(p, op)
	y.events(p, p.send(`call add {"a":"x"}`))
	for _, name := range []string{"the key of ollama", "the key in an agent's environment", "the daemon's token", "the secret of a tool server"} {
		// The agent's own words, with what it should have kept to itself in them.
		y.events(p, p.send("fail the server said "+y.secrets[name]))
		y.call(p.c, "end_thread", object{"threadId": p.id})
		y.call(p.c, "resume_thread", object{"threadId": p.id})
	}
	y.events(p, p.send("stderr 2000 ; crash"))
	y.call(p.c, "send_text", object{"threadId": p.id, "message": "no"})
	y.call(p.c, "prepare_thread", object{"threadId": p.id, "operationId": "heal"})
	y.events(p, "heal")
	if got := (toolServer{servers[0].url, strings.Repeat("0", 64)}).status(y.t, nil); got != http.StatusUnauthorized {
		y.t.Errorf("a wrong secret got %d", got)
	}

	other := newPage(y.t, y.d, object{"provider": "ollama"})
	y.events(other, other.send("hello"))
}

// transfer moves files, and fails to.
func (y *canaryDay) transfer() {
	k := newDesk(y.t, y.d, "canary")
	for i, body := range []string{"abc", "too long"} {
		ticket := k.ticket(3)
		y.secret(fmt.Sprint("the token of upload ", i), ticket.Token)
		for _, token := range []string{y.secrets["a wrong token"], ticket.Token, ticket.Token} {
			req, err := http.NewRequestWithContext(y.t.Context(), http.MethodPut, ticket.URL, strings.NewReader(body))
			k.must(err)
			req.Header.Set("Authorization", "Bearer "+token)
			y.exchange(req)
		}
	}
	var down struct {
		URL   string `json:"downloadUrl"`
		Token string `json:"token"`
	}
	k.must(k.c.call("create_asset_download", object{"threadId": k.id, "path": "/f.bin"}, &down))
	y.secret("the token of a download", down.Token)
	for range 2 {
		req, err := http.NewRequestWithContext(y.t.Context(), http.MethodGet, down.URL, nil)
		k.must(err)
		req.Header.Set("Authorization", "Bearer "+down.Token)
		y.exchange(req)
		k.must(os.RemoveAll(k.assets))
	}
	y.call(k.c, "create_asset_download", object{"threadId": k.id, "path": "/f.bin"})
	k.half(uploadBytes)
	y.call(k.c, "end_thread", object{"threadId": k.id})
}

func (y *canaryDay) exchange(req *http.Request) {
	res, err := transferClient.Do(req)
	if err != nil {
		y.t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_ = res.Header.Write(&b)
	_, _ = b.ReadFrom(res.Body) // what there is of it
	y.canary.heard("answers over HTTP", b.Bytes())
}

// refuse makes requests that are refused, with secrets in them.
func (y *canaryDay) refuse() {
	c := y.d.operator()
	wrong := y.secrets["a wrong token"]
	y.answered("list_threads", c.do(envelope{Type: "list_threads", AuthToken: &wrong}, nil))
	y.call(c, "backup", object{"path": "/"})
	y.call(c, "update_settings", object{"providerSettings": object{"ollama": object{"apiKey": 7}}})
	y.call(c, "create_thread", object{"provider": "opencode", "workspace": object{"path": "relative"}})
	for _, line := range []string{
		`{"requestId":"1","type":"ping","authToken":7}`,
		`{"requestId":"2","type":"ping","authToken":"` + y.d.info.Token + `"`,
		`{"requestId":"3","authToken":"` + y.d.info.Token + `"}`,
		`{"requestId":"4","type":"list_threads","authToken":"` + y.d.info.Token + `","payload":[]}`,
	} {
		if err := c.send([]byte(line + "\n")); err != nil {
			y.t.Fatal(err)
		}
		answer, err := c.line(patience)
		if err != nil {
			y.t.Fatal(err)
		}
		y.canary.heard("answers to malformed requests", answer)
	}
	res, err := http.Get("http://" + y.d.info.HTTPEndpoint + "/metrics")
	if err != nil {
		y.t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body)
	y.canary.heard("metrics", b.Bytes())
}

// people looks at the daemon as people do.
func (y *canaryDay) people() {
	for _, args := range [][]string{
		{"status"}, {"status", "--json"}, {"doctor"}, {"providers"}, {"threads", "ls"}, {"logs"},
	} {
		cmd := exec.Command(binary, append(args, "--home", y.d.home)...)
		cmd.Env = cleanEnv()
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) == 0 {
			y.t.Errorf("%v: %v", args, err)
		}
		y.canary.heard("what `"+strings.Join(args, " ")+"` prints", out)
	}
	pointer, err := os.ReadFile(filepath.Join(y.d.home, "agent-runtime.json"))
	if err != nil {
		y.t.Fatal(err)
	}
	y.canary.heard("agent-runtime.json", pointer)
	for _, pid := range agents(y.d.home) {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has left
		}
		y.canary.heard("the command lines of agents", args)
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(env, []byte(y.d.info.Token)) {
			y.t.Error("an agent has the daemon's token in its environment")
		}
	}
}
