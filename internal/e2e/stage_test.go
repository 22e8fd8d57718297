package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// stage is where one file of the corpus is played: a daemon, connections by name,
// and all that was said so far.
type stage struct {
	t       *testing.T
	home    string
	work    string // folder for workspaces of applications
	env     []string
	d       *daemon
	names   *names
	players map[string]*player
	told    map[string]string // thread and number → the durable event that had it
	web     bool              // connections are WebSockets of a native client
	broken  bool              // an earlier step failed so that the rest makes no sense
	out     bytes.Buffer
}

// player is one connection of a scenario.
type player struct {
	name    string
	conn    *conn
	waiting []posted          // requests without a response yet, oldest first
	queue   []event           // arrived, not shown yet
	answers []message         // likewise, of requests that were posted
	last    map[string]uint64 // last number seen, by thread
}

// posted is a request whose response is still to come.
type posted struct {
	id     string // "" = any
	thread string // the thread that it names; "" = none
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, home: newHome(t), names: newNames(), players: map[string]*player{}, told: map[string]string{}}
	s.work = filepath.Join(filepath.Dir(s.home), "work")
	if err := os.Mkdir(s.work, 0o700); err != nil {
		t.Fatal(err)
	}
	s.names.fix("$home", s.home)
	s.names.fix("$work", s.work)
	s.names.fix("$program", binary)
	return s
}

// settings adds members to the settings file.
func (s *stage) settings(data []byte) {
	expanded, err := s.names.expand(string(data))
	if err != nil {
		s.t.Fatal(err)
	}
	var more object
	if err := json.Unmarshal([]byte(expanded), &more); err != nil {
		s.t.Fatalf("%s: %v", settingsFile, err)
	}
	writeSettings(s.t, s.home, more)
}

func (s *stage) startDaemon(env []string) {
	s.d = start(s.t, s.home, append(slices.Clone(s.env), env...)...)
	s.names.fix("$token", s.d.info.Token)
	s.names.fix("$instance", s.d.info.InstanceID)
	s.names.fix("$http", s.d.info.HTTPEndpoint)
}

// play runs the steps of a scene and returns it with what really came.
func (s *stage) play(t *testing.T, steps []step) string {
	s.out.Reset()
	for _, st := range steps {
		fmt.Fprintln(&s.out, st.text)
		if err := s.step(st); err != nil {
			who := st.conn
			if who == "" {
				who = "!"
			}
			s.flush(who)
			fmt.Fprintf(&s.out, "%s< failed: %v\n", who, err)
			t.Errorf("%s: %v; so far:\n%s", st.text, err, s.out.String())
			s.broken = true
			return s.out.String()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.players)) {
		if err := s.settle(name); err != nil {
			fmt.Fprintf(&s.out, "%s< failed: %v\n", name, err)
			t.Errorf("%s at the end of the scene: %v", name, err)
			s.broken = true
		}
	}
	return s.out.String()
}

func (s *stage) step(st step) error {
	switch st.verb {
	case say:
		return nil
	case act:
		return s.act(st)
	}
	p, err := s.player(st.conn)
	if err != nil {
		return err
	}
	switch st.verb {
	case raw:
		text, err := s.names.expand(st.rest)
		if err != nil {
			return err
		}
		p.waiting = append(p.waiting, posted{})
		if err := p.conn.send([]byte(text + "\n")); err != nil {
			return err
		}
		return s.response(p, false)
	case hangUp:
		p.conn.Close()
		delete(s.players, st.conn)
		return nil
	case halfClose:
		half, ok := p.conn.nc.(interface{ CloseWrite() error })
		if !ok {
			return errors.New("this transport has no half-close")
		}
		return half.CloseWrite()
	case await:
		return s.await(p, st.word, st.rest)
	}
	if err := s.send(p, st); err != nil {
		return err
	}
	if st.verb == post {
		return nil
	}
	return s.response(p, st.verb == requestAll)
}

func (s *stage) player(name string) (*player, error) {
	if p := s.players[name]; p != nil {
		return p, nil
	}
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(c.Close)
	p := &player{name: name, conn: c, last: map[string]uint64{}}
	s.players[name] = p
	return p, nil
}

func (s *stage) connect() (*conn, error) {
	if s.web {
		return openWeb(s.d.info.HTTPEndpoint, s.d.info.Token)
	}
	return open(s.d.info.Endpoint)
}

// send writes the request of a step.
func (s *stage) send(p *player, st step) error {
	e := envelope{Type: st.word}
	for key, value := range st.opts {
		value, err := s.names.expand(value)
		if err != nil {
			return err
		}
		switch key {
		case "origin":
			e.CallerOrigin = &value
		case "sdk":
			e.CallerVersion = &value
		case "token":
			e.AuthToken = &value
			if value == "" {
				e.AuthToken = &s.d.info.Token
			}
		default:
			return fmt.Errorf("%q is no option of a request", key)
		}
	}
	payload, err := s.names.expand(st.rest)
	if err != nil {
		return err
	}
	e.Payload = jsontext.Value(payload)
	if payload == "" {
		e.Payload = nil
	}
	id, line, err := p.conn.request(e)
	if err != nil {
		return fmt.Errorf("the payload of the script: %w", err)
	}
	if e.Type == "subscribe_thread" {
		p.last = map[string]uint64{} // a new cursor may lie before the old one
	}
	var named struct {
		ThreadID string `json:"threadId"`
	}
	_ = json.Unmarshal(e.Payload, &named) // a payload of another shape names none
	p.waiting = append(p.waiting, posted{id, named.ThreadID})
	return p.conn.send(line)
}

// response shows what answers the oldest request in hand, and with all also the
// events before it.
func (s *stage) response(p *player, all bool) error {
	if len(p.answers) > 0 {
		m := p.answers[0]
		p.answers = p.answers[1:]
		return s.showResponse(p, m)
	}
	for {
		m, err := p.conn.next(patience)
		if err != nil {
			return err
		}
		if m.isEvent() {
			if err := s.arrive(p, m); err != nil {
				return err
			}
			continue
		}
		if all {
			s.flush(p.name)
		}
		return s.showResponse(p, m)
	}
}

func (s *stage) showResponse(p *player, m message) error {
	if len(p.waiting) == 0 {
		return fmt.Errorf("a response to nothing: %+v", m)
	}
	want := p.waiting[0]
	p.waiting = p.waiting[1:]
	fmt.Fprintf(&s.out, "%s< ", p.name)
	if m.RequestID != want.id {
		fmt.Fprintf(&s.out, "%q ", clip([]byte(m.RequestID)))
	}
	if m.OK {
		text, err := s.names.render(m.Result, want.thread)
		fmt.Fprintf(&s.out, "ok %s\n", text)
		return err
	}
	if m.Err == nil || m.Err.Code == "" || m.Err.Message == "" {
		return errors.New("an error response without code or message")
	}
	if m.Err.Details == nil {
		fmt.Fprintln(&s.out, m.Err.Code)
		return nil
	}
	text, err := s.names.render(m.Err.Details, want.thread)
	fmt.Fprintf(&s.out, "%s %s\n", m.Err.Code, text)
	return err
}

// arrive takes an event in and checks what holds for all of them.
func (s *stage) arrive(p *player, m message) error {
	e, err := parseEvent(m.Event)
	if err != nil {
		return err
	}
	if e.Seq <= p.last[e.ThreadID] {
		return fmt.Errorf("number %d of a thread came after %d", e.Seq, p.last[e.ThreadID])
	}
	p.last[e.ThreadID] = e.Seq
	if e.Type == "assistant_delta" {
		s.names.delta(e.ThreadID, e.Seq, e.Seq)
	} else {
		key := fmt.Sprintf("%s#%d", e.ThreadID, e.Seq)
		if before, ok := s.told[key]; ok && before != string(e.raw) {
			return fmt.Errorf("number %d was told as %s and now as %s", e.Seq, before, e.raw)
		}
		s.told[key] = string(e.raw)
	}
	p.queue = append(p.queue, e)
	return nil
}

// await shows events up to one of the type and, if given, status and thread.
func (s *stage) await(p *player, word, rest string) error {
	if word == "response" {
		return s.response(p, true)
	}
	status, thread := "", ""
	for _, arg := range strings.Fields(rest) {
		if strings.HasPrefix(arg, "$") {
			thread = s.names.values[arg]
		} else {
			status = arg
		}
	}
	match := func(e event) bool {
		return e.Type == word && (status == "" || e.Status == status) && (thread == "" || e.ThreadID == thread)
	}
	for i, e := range p.queue {
		if match(e) {
			rest := slices.Clone(p.queue[i+1:])
			p.queue = p.queue[:i+1]
			s.flush(p.name)
			p.queue = rest
			return nil
		}
	}
	for {
		m, err := p.conn.next(patience)
		if word == "closed" && errors.Is(err, errClosed) {
			s.flush(p.name)
			fmt.Fprintf(&s.out, "%s< closed\n", p.name)
			p.conn.Close()
			delete(s.players, p.name)
			return nil
		}
		if err != nil {
			return err
		}
		if !m.isEvent() {
			p.answers = append(p.answers, m)
			continue
		}
		if err := s.arrive(p, m); err != nil {
			return err
		}
		if match(p.queue[len(p.queue)-1]) {
			s.flush(p.name)
			return nil
		}
	}
}

// flush shows the events that have arrived.
func (s *stage) flush(name string) {
	p := s.players[name]
	if p == nil {
		return
	}
	for i := 0; i < len(p.queue); i++ {
		e := p.queue[i]
		if e.Type != "assistant_delta" {
			text, err := s.names.render(e.raw, e.ThreadID, "type", "seq", "threadId")
			if err != nil {
				text = err.Error()
			}
			s.showEvent(name, e, text)
			continue
		}
		first := e
		for i+1 < len(p.queue) && p.queue[i+1].Type == e.Type && p.queue[i+1].ThreadID == e.ThreadID {
			i++
			first.Text += p.queue[i].Text
			s.names.delta(e.ThreadID, first.Seq, p.queue[i].Seq)
		}
		b, err := json.Marshal(object{"operationId": s.names.text(e.OperationID), "text": s.names.shown(first.Text)}, json.Deterministic(true))
		if err != nil {
			b = []byte(err.Error())
		}
		s.showEvent(name, first, string(b))
	}
	p.queue = nil
}

func (s *stage) showEvent(name string, e event, rest string) {
	if rest == "{}" {
		rest = ""
	} else {
		rest = " " + rest
	}
	fmt.Fprintf(&s.out, "%s< %s#%d %s%s\n", name, s.names.text(e.ThreadID), s.names.seq(e.ThreadID, e.Seq), e.Type, rest)
}

// settle makes sure at the end of a scene that nothing more has come to a
// connection; what has is shown, and so becomes a difference.
func (s *stage) settle(name string) error {
	p := s.players[name]
	if len(p.waiting) > 0 {
		return fmt.Errorf("%d responses are still missing", len(p.waiting))
	}
	id, line, err := p.conn.request(envelope{Type: "ping", AuthToken: &s.d.info.Token})
	if err != nil {
		return err
	}
	if err := p.conn.send(line); err != nil {
		return err
	}
	for {
		m, err := p.conn.next(patience)
		if err != nil {
			return err
		}
		if m.isEvent() {
			if err := s.arrive(p, m); err != nil {
				return err
			}
			continue
		}
		if m.RequestID != id || !m.OK {
			return fmt.Errorf("the daemon answers a ping with %+v", m)
		}
		s.flush(name)
		return nil
	}
}
