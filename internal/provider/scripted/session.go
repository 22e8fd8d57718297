package scripted

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// models are what the model option offers; the first is the default.
var models = []string{"scripted/small", "scripted/large"}

// session is one conversation that this process has open. Its fields belong to
// agent.mu, but for those that a running turn alone uses.
type session struct {
	id     string
	cwd    string
	model  string
	cancel context.CancelFunc // interrupts the running turn; nil = none runs

	prompts    int  // prompts so far, preparations included
	instructed bool // a host block was seen
	tools      []hostTool
	servers    []*toolServer
	prepare    string // how the next preparation is answered; "" = properly
}

// replay says whether opening a session repeats its history.
type replay int

const (
	noReplay replay = iota
	replayHistory
)

func unknownSession(id string) error {
	return &rpcError{Code: codeInvalidParams, Message: "session not found", Data: object{"sessionId": id}}
}

func decode(params jsontext.Value, into any) error {
	if err := json.Unmarshal(params, into); err != nil {
		return &rpcError{Code: codeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	return nil
}

func (a *agent) newSession(params jsontext.Value) (any, error) {
	var p struct {
		Cwd     string         `json:"cwd"`
		Servers []serverParams `json:"mcpServers"`
	}
	if err := decode(params, &p); err != nil {
		return nil, err
	}
	if lookup(a.env, InitEnv) == "auth" {
		return nil, &rpcError{Code: codeAuthRequired, Message: "Authentication required"}
	}
	if !filepath.IsAbs(p.Cwd) {
		return nil, &rpcError{Code: codeInvalidParams, Message: "cwd is not an absolute path"}
	}
	s := &session{id: "ses_" + strings.ToLower(rand.Text()), cwd: p.Cwd, model: models[0], servers: servers(p.Servers)}
	if err := a.store.append(s.id, record{Kind: recordOpen, Cwd: s.cwd, Model: s.model}); err != nil {
		return nil, err
	}
	_ = fault.Point("scripted.session.made")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[s.id] = s
	return object{"sessionId": s.id, "configOptions": options(s.model)}, nil
}

// openSession serves session/load and session/resume: it reads what this or
// another process wrote of the session.
func (a *agent) openSession(params jsontext.Value, how replay) (any, error) {
	var p struct {
		SessionID string         `json:"sessionId"`
		Cwd       string         `json:"cwd"`
		Servers   []serverParams `json:"mcpServers"`
	}
	if err := decode(params, &p); err != nil {
		return nil, err
	}
	records, err := a.store.read(p.SessionID)
	if err != nil {
		return nil, unknownSession(p.SessionID)
	}
	_ = fault.Point("scripted.session.found")
	s := restore(p.SessionID, records)
	s.servers = servers(p.Servers)
	if filepath.IsAbs(p.Cwd) {
		s.cwd = p.Cwd
	}
	a.mu.Lock()
	if open := a.sessions[s.id]; open != nil && open.cancel != nil {
		a.mu.Unlock()
		return nil, &rpcError{Code: codeInvalidRequest, Message: "the session has a turn that runs"}
	}
	former := a.sessions[s.id]
	a.sessions[s.id] = s
	a.mu.Unlock()
	if former != nil {
		former.leaveServers()
	}
	if how == replayHistory {
		a.replay(s.id, records)
	}
	return object{"configOptions": options(s.model)}, nil
}

func (a *agent) replay(id string, records []record) {
	for _, r := range records {
		switch r.Kind {
		case recordUser:
			a.update(id, object{"sessionUpdate": "user_message_chunk", "content": object{"type": "text", "text": r.Text}})
		case recordAgent:
			a.update(id, object{"sessionUpdate": "agent_message_chunk", "messageId": "msg_replayed", "content": object{"type": "text", "text": r.Text}})
		}
	}
}

func (a *agent) update(id string, update object) {
	a.send(a.leave, object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": id, "update": update}})
}

// restore makes a session of what was written of it.
func restore(id string, records []record) *session {
	s := &session{id: id, model: models[0]}
	for _, r := range records {
		switch r.Kind {
		case recordOpen:
			s.cwd, s.model = r.Cwd, r.Model
		case recordModel:
			s.model = r.Model
		case recordUser:
			s.prompts++
			s.instructed = s.instructed || r.Instructed
			if r.Instructed {
				s.tools = r.Tools
			}
			if r.Preparation {
				s.prepare = ""
			}
		case recordPrepare:
			s.prepare = r.Text
		}
	}
	return s
}

func (a *agent) closeSession(params jsontext.Value) (any, error) {
	var p struct {
		SessionID string `json:"sessionId"`
	}
	if err := decode(params, &p); err != nil {
		return nil, err
	}
	a.mu.Lock()
	s := a.sessions[p.SessionID]
	if s == nil {
		a.mu.Unlock()
		return nil, unknownSession(p.SessionID)
	}
	if s.cancel != nil {
		s.cancel()
	}
	delete(a.sessions, p.SessionID)
	a.mu.Unlock()
	s.leaveServers()
	return object{}, nil
}

// leaveServers ends the sessions with the tool servers.
func (s *session) leaveServers() {
	for _, server := range s.servers {
		server.close()
	}
}

func (a *agent) listSessions() (any, error) {
	all, err := a.store.list()
	if err != nil {
		return nil, err
	}
	list := []object{}
	for _, stored := range all {
		list = append(list, object{"sessionId": stored.id, "cwd": stored.cwd, "updatedAt": stored.updatedAt.UTC().Format(time.RFC3339)})
	}
	return object{"sessions": list}, nil
}

func (a *agent) setOption(params jsontext.Value) (any, error) {
	var p struct {
		SessionID string `json:"sessionId"`
		ConfigID  string `json:"configId"`
		Value     string `json:"value"`
	}
	if err := decode(params, &p); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[p.SessionID]
	if s == nil {
		return nil, unknownSession(p.SessionID)
	}
	if p.ConfigID != "model" {
		return nil, &rpcError{Code: codeInvalidParams, Message: "option not found", Data: object{"configId": p.ConfigID}}
	}
	if !slices.Contains(models, p.Value) {
		return nil, &rpcError{Code: codeInvalidParams, Message: "model not found", Data: object{"modelId": p.Value}}
	}
	if err := a.store.append(s.id, record{Kind: recordModel, Model: p.Value}); err != nil {
		return nil, err
	}
	s.model = p.Value
	return object{"configOptions": options(s.model)}, nil
}

func options(model string) []object {
	choices := []object{}
	for _, m := range models {
		choices = append(choices, object{"value": m, "name": m})
	}
	return []object{{"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": model, "options": choices}}
}
