package acp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// serverName is the name under which an agent is told of the thread's tools; agents
// put it in front of the names of the tools.
const serverName = "pedelec"

// DefaultAnnounce is how long a call waits to be seen in its own session: the agent
// tells of it before it makes it, but on another channel.
const DefaultAnnounce = 2 * time.Second

// mcpServer is a server of tools that an agent is to connect to.
type mcpServer struct {
	Type    string      `json:"type"`
	Name    string      `json:"name"`
	URL     string      `json:"url"`
	Headers []mcpHeader `json:"headers"`
}

type mcpHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// offer decides how the thread's tools reach the agent in this session, and counts
// the session among the users of its folder until settled is called. An agent that
// offers the tools of all sessions in a folder to each of them gets them over MCP
// only while no other thread's session is there.
func (r *Runtime) offer(s *session, tools thread.ToolAccess) (settled func()) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.attaching[s] = struct{}{}
	s.servers = []mcpServer{} // agents want the member
	if tools.MCPURL != "" && r.caps.canMCP() && !(r.flavour.sharesTools && r.othersIn(s)) {
		s.native = true
		s.servers = append(s.servers, mcpServer{
			Type: "http", Name: serverName, URL: tools.MCPURL,
			Headers: []mcpHeader{{"Authorization", "Bearer " + tools.MCPSecret}},
		})
	}
	return func() {
		r.Mu.Lock()
		defer r.Mu.Unlock()
		delete(r.attaching, s)
	}
}

// othersIn reports whether another thread has a session in the same folder. The
// mutex is held.
func (r *Runtime) othersIn(s *session) bool {
	shares := func(o *session) bool { return o.ThreadID != s.ThreadID && o.policy.Workspace == s.policy.Workspace }
	for o := range r.attaching {
		if shares(o) {
			return true
		}
	}
	for _, o := range r.Taken {
		if shares(o) {
			return true
		}
	}
	return false
}

func (s *session) channel() thread.ToolChannel {
	if s.native {
		return thread.ToolsNative
	}
	return thread.ToolsByCommand
}

// witness returns who tells whether a call over MCP is this session's; nobody where
// the agent was not told of the server.
func (s *session) witness() thread.ToolWitness {
	if !s.native {
		return nil
	}
	return s
}

// instructed reports whether the session has these very instructions. Others may
// have been sent when the tools came another way; the copy in the workspace tells.
func (r *Runtime) instructed(spec thread.SessionSpec, text string) bool {
	if !spec.Instructed {
		return false
	}
	if !r.flavour.keepsFile || spec.PrivateDir == nil {
		return true
	}
	dir, err := spec.PrivateDir()
	if err != nil {
		return false
	}
	path := filepath.Join(dir, instructionsFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(text)) {
		return false
	}
	kept, err := os.ReadFile(path)
	return err == nil && string(kept) == text
}

// callUpdate is what an update tells of a tool call. Members that it leaves out are
// as they were.
type callUpdate struct {
	id     string
	title  string
	input  string
	status string
}

// over reports whether the call has ended.
func (c callUpdate) over() bool { return c.status == "completed" || c.status == "failed" }

// announcement is a tool call that the agent has begun.
type announcement struct {
	title string
	input string // as JSON
	taken bool   // a call over MCP was accepted for it
}

// maxAnnounced bounds the calls of a turn that are open at once.
const maxAnnounced = 1000

// note keeps what an update tells of a tool call. The runtime's mutex is held.
func (t *turn) note(c callUpdate) {
	if c.over() {
		t.forget(c.id)
		return
	}
	a := t.announced[c.id]
	if a == nil {
		if len(t.announced) >= maxAnnounced {
			return
		}
		a = &announcement{}
		t.announced[c.id] = a
	}
	if c.title != "" {
		a.title = c.title
	}
	if c.input != "" {
		a.input = c.input
	}
	close(t.news)
	t.news = make(chan struct{})
}

// forget takes a call that has ended off the list. Nobody knows which of several
// open calls of one tool a call over MCP was: if that of the ended one was accepted
// for another, the other is free again. The runtime's mutex is held.
func (t *turn) forget(id string) {
	ended := t.announced[id]
	delete(t.announced, id)
	if ended == nil || ended.taken {
		return
	}
	for _, a := range t.announced {
		if a.taken && a.title == ended.title {
			a.taken = false
			close(t.news)
			t.news = make(chan struct{})
			return
		}
	}
}

// Announced waits until the running turn shows a call of the tool, and takes it.
// Error: THREAD_ACCESS_DENIED.
func (s *session) Announced(ctx context.Context, modelName string) error {
	late := time.NewTimer(s.r.flavour.Announce)
	defer late.Stop()
	for {
		s.r.Mu.Lock()
		t := s.turn
		if t == nil || t.cancelled || s.Fenced() {
			s.r.Mu.Unlock()
			return notAnnounced(modelName)
		}
		for _, a := range t.announced {
			if !a.taken && s.r.flavour.isCallOf(*a, modelName) {
				a.taken = true
				s.r.Mu.Unlock()
				return nil
			}
		}
		news := t.news
		s.r.Mu.Unlock()
		select {
		case <-news:
		case <-t.ended:
		case <-late.C:
			return notAnnounced(modelName)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func notAnnounced(modelName string) error {
	return fault.New(fault.ThreadAccessDenied, "This tool belongs to another conversation, which did not call it. Use the tools of your own application.").
		With("toolName", modelName)
}

// exactTitle recognises the calls of an agent that shows a tool's name as its title.
func exactTitle(a announcement, modelName string) bool {
	return a.title == serverName+"_"+modelName
}

// mentions recognises the calls of an agent whose titles are for people.
func mentions(a announcement, modelName string) bool {
	return strings.Contains(a.title, modelName) || strings.Contains(a.input, modelName)
}

// isFrontendTool reports whether a question for permission is about a tool that the
// session was given by us.
func (s *session) isFrontendTool(c toolCall) bool {
	name, ok := strings.CutPrefix(c.Title, serverName+"_")
	return ok && s.native && c.Kind != "execute" && name != "" && !strings.ContainsFunc(name, notInName)
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}
