package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// peer records what is written and what is handed to the handler.
type peer struct {
	mu      sync.Mutex
	lines   []string
	heard   []string
	refuses error
}

func (p *peer) take(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, string(line))
	return p.refuses
}

func (p *peer) written() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

func (p *peer) Notification(method string, params jsontext.Value) {
	p.heard = append(p.heard, method+" "+string(params))
}

func (p *peer) Request(id ID, method string, params jsontext.Value) {
	p.heard = append(p.heard, string(id)+" "+method+" "+string(params))
}

func newConn(dialect Dialect) (*Conn, *peer) {
	p := &peer{}
	return New(Config{
		Dialect: dialect,
		Write:   func(_ context.Context, line []byte) error { return p.take(line) },
		Post:    p.take,
		Handler: p,
	}), p
}

func TestEveryKindOfMessageIsWrittenInBothDialects(t *testing.T) {
	for dialect, version := range map[Dialect]string{V2: `"jsonrpc":"2.0",`, Bare: ""} {
		c, p := newConn(dialect)
		params := map[string]int{"a": 1}
		if err := c.Go(t.Context(), "go", params, func(jsontext.Value, error) {}); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			c.Tell("tell", nil), c.Notify("notify", params), c.Reply(`"x"`, params), c.Reply("3", nil), c.Refuse("4", CodeMethodNotFound, "no"),
			c.Notify("bad \xff text", "a\nb\xffc"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want := []string{
			`{` + version + `"id":1,"method":"go","params":{"a":1}}`,
			`{` + version + `"id":2,"method":"tell"}`,
			`{` + version + `"method":"notify","params":{"a":1}}`,
			`{` + version + `"id":"x","result":{"a":1}}`,
			`{` + version + `"id":3,"result":null}`,
			`{` + version + `"id":4,"error":{"code":-32601,"message":"no"}}`,
			`{` + version + `"method":"bad ` + "\uFFFD" + ` text","params":"a\nb` + "\uFFFD" + `c"}`,
		}
		if got := p.written(); !slices.Equal(got, want) {
			t.Errorf("dialect %d:\n got %s\nwant %s", dialect, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}

func TestLinesReachWhomTheyAreFor(t *testing.T) {
	c, p := newConn(V2)
	var answers []string
	for range 3 {
		err := c.Go(t.Context(), "m", nil, func(result jsontext.Value, err error) {
			answers = append(answers, fmt.Sprintf("%s %v", string(result), err))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"note","params":[1]}`,
		`{"method":"bare"}`,
		`{"id":0,"method":"ask","params":{}}`,
		`{"id":"q","method":"ask","result":1}`,
		`{"id":2,"result":{"ok":true}}`,
		`{"id":1,"error":{"code":-5,"message":"no","data":[1]}}`,
		`{"id":3,"result":null}`,
		`{"id":2,"result":"twice"}`,
		`{"id":99,"result":"unknown"}`,
		`{"id":"2","result":"not ours"}`,
		`{}`, `{"id":1}`, `{"id":null,"result":1}`, `[]`, `nonsense`, ``,
	} {
		c.Feed([]byte(line))
	}
	heard := []string{"note [1]", "bare ", "0 ask {}", `"q" ask `}
	if !slices.Equal(p.heard, heard) {
		t.Errorf("heard %q, want %q", p.heard, heard)
	}
	want := []string{`{"ok":true} <nil>`, ` no (-5)`, `null <nil>`}
	if !slices.Equal(answers, want) {
		t.Errorf("answers %q, want %q", answers, want)
	}
	if s := c.Stats(); s.LateAnswers != 3 || s.StrayLines != 5 || s.LastStray != "nonsense" {
		t.Errorf("stats %+v", s)
	}
}

func TestACallEndsWithAnAnswerATimeoutItsCallerOrTheConnection(t *testing.T) {
	gone := errors.New("gone")
	tests := []struct {
		name string
		do   func(c *Conn, leave context.CancelFunc)
		want func(error) bool
	}{
		{"answer", func(c *Conn, _ context.CancelFunc) { c.Feed([]byte(`{"id":1,"result":{"n":7}}`)) }, func(err error) bool { return err == nil }},
		{"refusal", func(c *Conn, _ context.CancelFunc) { c.Feed([]byte(`{"id":1,"error":{"code":3,"message":"no"}}`)) },
			func(err error) bool { var e *Error; return errors.As(err, &e) && e.Code == 3 }},
		{"answer of another shape", func(c *Conn, _ context.CancelFunc) { c.Feed([]byte(`{"id":1,"result":[]}`)) }, func(err error) bool { return err != nil }},
		{"timeout", func(*Conn, context.CancelFunc) {}, func(err error) bool { return errors.Is(err, ErrTimeout) }},
		{"caller", func(_ *Conn, leave context.CancelFunc) { leave() }, func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"connection", func(c *Conn, _ context.CancelFunc) { c.Close(gone) }, func(err error) bool { return errors.Is(err, gone) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := newConn(V2)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var result struct {
					N int `json:"n"`
				}
				done := make(chan error, 1)
				go func() { done <- c.Call(ctx, time.Minute, "m", nil, &result) }()
				synctest.Wait()
				tt.do(c, leave)
				if err := <-done; !tt.want(err) {
					t.Errorf("call: %v", err)
				}
			})
		})
	}
}

func TestNothingIsWrittenForACallerWhoHasLeft(t *testing.T) {
	c, p := newConn(V2)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	called := false
	if err := c.Go(ctx, "m", nil, func(jsontext.Value, error) { called = true }); !errors.Is(err, context.Canceled) || !errors.Is(err, fault.ErrUnsent) {
		t.Errorf("go: %v", err)
	}
	c.Feed([]byte(`{"id":1,"result":1}`))
	if called || len(p.written()) != 0 {
		t.Errorf("called %v, written %q", called, p.written())
	}
	c.Close(nil)
	c.Close(errors.New("second"))
	if err := c.Call(t.Context(), time.Second, "m", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("call after close: %v", err)
	}
}

func TestAWriteThatFailsFailsItsRequest(t *testing.T) {
	c, p := newConn(V2)
	p.refuses = errors.New("broken pipe")
	called := false
	err := c.Go(t.Context(), "m", nil, func(jsontext.Value, error) { called = true })
	c.Feed([]byte(`{"id":1,"result":1}`))
	if !errors.Is(err, p.refuses) || called {
		t.Errorf("go: %v, called %v", err, called)
	}
	if err := c.Notify("m", nil); !errors.Is(err, p.refuses) {
		t.Errorf("notify: %v", err)
	}
}

func TestALineThatIsTooLongHurtsOnlyItsOwnRequest(t *testing.T) {
	tests := []struct {
		head, tail, answered string
		written              int // answers to the peer
		refused              bool
	}{
		{head: `{"jsonrpc":"2.0","id":2,"result":{"id":1,"text":"xxx`, answered: "2"},
		{head: `{"id":1,"error":{"message":"xxx`, answered: "1", refused: true},
		{head: `{"error":{"message":"xxx`, tail: `xxx"},"id":1}`, answered: "1", refused: true},
		{head: `{"jsonrpc":"2.0","result":{"text":"xxx`, tail: `xxx"}, "id" : 2 }`, answered: "2"},
		{head: `{"result":"xxx`, tail: `x,\"id\":2}"}`},
		{head: `{"result":{"text":"xxx`, tail: `"x","id":2}}`},
		{head: `{"result":"xxx`, tail: `"x","id":"2"}`},
		{head: `{"method":"ask","params":"xxx`, tail: `xxx","id":"q"}`, written: 1},
		{head: `{"xxx":"xxx`, tail: `xxx","id":2}`},
		{head: `{"result":{"id":1},"id":2,"x":"xxx`, answered: "2"},
		{head: `{"result":{"id":1,"text":"xxx`},
		{head: `{"id":99,"result":"xxx`},
		{head: `{"id":null,"result":"xxx`},
		{head: `{"method":"session/update","params":{"id":1,"x":"xxx`},
		{head: `{"id":1,"method":"ask","params":{"x":"xxx`, written: 1},
		{head: `{"id":"q","method":"as`, written: 1},
		{head: `{"id":1,"params":{"x":"xxx`},
		{head: `xxx`},
		{head: ``},
	}
	for _, tt := range tests {
		c, p := newConn(V2)
		answered := ""
		for n := range 2 {
			err := c.Go(t.Context(), "m", nil, func(_ jsontext.Value, err error) {
				var refusal *Error
				if refused := errors.As(err, &refusal); refused != tt.refused || !refused && !errors.Is(err, ErrTooLong) {
					t.Errorf("%s: %v", tt.head, err)
				}
				answered += fmt.Sprint(n + 1)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		c.Skipped([]byte(tt.head), []byte(tt.tail))
		if answered != tt.answered || len(p.written()) != 2+tt.written || c.Stats().SkippedLines != 1 {
			t.Errorf("%s … %s: answered %q, written %q", tt.head, tt.tail, answered, p.written()[2:])
		}
	}
}

func TestALateResultIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newConn(V2)
		var late []string
		take := func(result jsontext.Value) { late = append(late, string(result)) }
		for range 2 {
			if err := c.CallLate(t.Context(), time.Second, "m", nil, nil, take); !errors.Is(err, ErrTimeout) {
				t.Fatal(err)
			}
		}
		c.Feed([]byte(`{"id":2,"result":"made"}`))
		c.Feed([]byte(`{"id":1,"error":{"code":1,"message":"no"}}`))
		if !slices.Equal(late, []string{`"made"`}) {
			t.Errorf("late %q", late)
		}
	})
}

func TestOnlyASilentPeerIsGivenUp(t *testing.T) {
	tests := []struct {
		name   string
		calls  int
		every  time.Duration
		speaks bool // says something after the second call
		broken bool
	}{
		{"two misses", 2, 20 * time.Second, false, false},
		{"three misses in 30 s of silence", 3, 10 * time.Second, false, true},
		{"three misses in a short time", 3, time.Second, false, false},
		{"many misses in a short time and one late", 31, time.Second, false, true},
		{"a word between them", 3, 20 * time.Second, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := newConn(V2)
				for i := range tt.calls {
					if err := c.Call(t.Context(), tt.every, "m", nil, nil); !errors.Is(err, ErrTimeout) {
						t.Fatal(err)
					}
					if tt.speaks && i == 1 {
						c.Feed([]byte(`{"method":"hello"}`))
					}
				}
				select {
				case <-c.Done():
					if !tt.broken || !errors.Is(c.Err(), ErrTimeout) {
						t.Errorf("broken: %v", c.Err())
					}
				default:
					if tt.broken {
						t.Error("not broken")
					}
				}
			})
		})
	}
}

func FuzzDecodeIsTotalAndKeepsToOneKind(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"id":"a","method":"m","params":[1]}`, `{"method":"m"}`,
		`{"id":1,"error":{"code":-32601,"message":"no","data":{"a":1}}}`, `{"id":1,"error":"x"}`, `{"id":{},"method":7}`,
		`{"a":1,"a":2}`, `{"method":"\ud83d"}`, `[`, `{"id":1,"result":null,"error":null}`, "\xff", `{"method":"m"} x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := Decode(line)
		if err != nil {
			return
		}
		asks, answers := m.Method != "", m.Result != nil || m.Error != nil
		if asks == answers || (m.Kind == Response) != answers || (m.Kind != Notification) != (m.ID != nil) {
			t.Errorf("%q: %+v", line, m)
		}
		c, _ := newConn(V2)
		c.Feed(line)
	})
}

func BenchmarkDecode(b *testing.B) {
	line := []byte(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":92,"outputTokens":20,"totalTokens":122}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
