package codex

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// never is the approval policy of a session in which nobody can be asked: what the
// sandbox does not allow fails.
const never = "never"

// Attach opens a thread's session: the one that it had, else a fresh one.
func (r *Runtime) Attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error) {
	for _, old := range r.Dismiss(spec.ThreadID) {
		old.Out.Shut()
		if old.ID != spec.SessionID { // else its frames are wanted again in a moment
			r.tell("thread/unsubscribe", threadParams{old.ID})
		}
	}
	s := &session{
		r:       r,
		Seat:    provider.Seat{ThreadID: spec.ThreadID, Out: provider.NewOutlet(sink)},
		efforts: parseEfforts(spec.EffortArgs),
		cwd:     spec.WorkspacePath,
		sandbox: sandboxFor(spec),
	}
	if spec.Skills != nil {
		s.tools = thread.ModelNames(spec.Skills.Tools)
	}
	params, err := r.openParams(spec, s)
	if err != nil {
		return thread.Attachment{}, err
	}
	lost, err := r.resume(ctx, s, spec.SessionID, params)
	if err != nil {
		return thread.Attachment{}, err
	}
	fresh := s.ID == ""
	if fresh {
		if err := r.open(ctx, s, spec, params); err != nil {
			return thread.Attachment{}, err
		}
	}
	r.Mu.Lock()
	r.Reserve(s)
	r.Mu.Unlock()
	r.link.Changed()
	return thread.Attachment{Conversation: s, SessionID: s.ID, Fresh: fresh, Lost: lost}, nil
}

func (r *Runtime) openParams(spec thread.SessionSpec, s *session) (openParams, error) {
	p := openParams{
		Model:          s.efforts.model,
		Cwd:            spec.WorkspacePath,
		ApprovalPolicy: never,
		Sandbox:        sandboxWord(spec.Permission),
		Config:         map[string]any{},
	}
	if spec.Instructions != nil {
		p.DeveloperInstructions = spec.Instructions(thread.ToolsNative)
	}
	if s.efforts.reasoning != "" {
		p.Config["model_reasoning_effort"] = s.efforts.reasoning
	}
	if spec.Permission == thread.PermitWorkspace && spec.PrivateDir != nil {
		tmp, err := scratch(spec)
		if err != nil {
			return p, r.fault(fault.ProviderRequestFailed, "workspace", "A folder for temporary files could not be made in the workspace.", err)
		}
		p.Config["shell_environment_policy.set"] = map[string]string{"TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}
	}
	return p, nil
}

// scratch makes a folder for temporary files inside the workspace, since the
// system's lies outside the sandbox: other threads' files are there.
func scratch(spec thread.SessionSpec) (string, error) {
	dir, err := spec.PrivateDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "tmp")
	return dir, os.MkdirAll(dir, 0o700)
}

// resume opens the conversation that the thread had. One that the agent does not
// know leaves s.ID empty and returns why.
func (r *Runtime) resume(ctx context.Context, s *session, id string, params openParams) (lost *fault.Error, err error) {
	if id == "" {
		return nil, nil
	}
	s.ID = id
	if err := r.Take(s); err != nil { // before the answer: the usage so far comes first
		return nil, err
	}
	added := r.remember(s) // before the answer, too: it may come when nobody waits for it any more
	params.ThreadID, params.ExcludeTurns = id, true
	err = r.reopen(ctx, params, s.ThreadID)
	if err == nil {
		return nil, nil
	}
	r.Leave(s)
	answer, refused := err.(*jsonrpc.Error)
	if refused && added { // one that it had, it still has, whatever it refuses now
		r.forget(s)
	}
	s.ID = ""
	if refused && classify(answer) == unknownSession {
		return fault.From(r.failure("thread/resume", answer)), nil
	}
	return nil, r.failure("thread/resume", err)
}

// reopen resumes a conversation, again and again for a while: the process that had
// it may be about to let it go. One that is resumed after the caller has left, and of
// which the thread was detached meanwhile, is let go again.
func (r *Runtime) reopen(ctx context.Context, params openParams, threadID string) error {
	late := func(jsontext.Value) {
		if !r.holds(threadID, params.ThreadID) {
			r.spawn(func() { r.letGo(params.ThreadID) })
		}
	}
	giveUp := r.Now().Add(r.agent.Patience)
	for wait := r.agent.HandOver; ; wait = min(2*wait, maxHandOver) {
		err := r.conn.CallLate(ctx, r.agent.Open, "thread/resume", params, nil, late)
		answer, refused := err.(*jsonrpc.Error)
		if !refused {
			return err
		}
		c := classify(answer)
		if c != heldElsewhere && c != shelved || r.Now().After(giveUp) || !r.pause(ctx, wait) {
			return err
		}
		if c == shelved { // a process died between letting it go and putting it back
			err := r.conn.Call(ctx, r.agent.Control, "thread/unarchive", threadParams{params.ThreadID}, nil)
			if _, refused := err.(*jsonrpc.Error); err != nil && !refused { // refused: somebody else was quicker
				return err
			}
		}
	}
}

// pause waits and reports whether there is a reason to go on.
func (r *Runtime) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.conn.Done():
		return false
	case <-ctx.Done():
		return false
	}
}

// open begins a conversation. One that is answered after the caller has left is
// let go.
func (r *Runtime) open(ctx context.Context, s *session, spec thread.SessionSpec, params openParams) error {
	if spec.Skills != nil {
		for _, t := range spec.Skills.Tools {
			params.DynamicTools = append(params.DynamicTools, dynamicTool{
				Type: "function", Name: s.tools.Model[t.Name], Description: t.Description, InputSchema: t.ArgsSchema,
			})
		}
	}
	late := func(answer jsontext.Value) {
		var orphan openResult
		if jsonrpc.Unmarshal(answer, &orphan) == nil && orphan.Thread.ID != "" {
			r.tell("thread/unsubscribe", threadParams{orphan.Thread.ID})
		}
	}
	var result openResult
	if err := r.conn.CallLate(ctx, r.agent.Open, "thread/start", params, &result, late); err != nil {
		return r.failure("thread/start", err)
	}
	if result.Thread.ID == "" {
		return r.fault(fault.ProviderProtocolError, "thread/start", name+" opened a conversation without an id.", nil)
	}
	s.ID = result.Thread.ID
	if err := r.Take(s); err != nil {
		return err
	}
	r.remember(s)
	return nil
}

// remember notes that this process has the conversation in memory, or comes to, and
// with it the lock on it, until the process ends or lets it go. It reports whether
// that was not known before.
func (r *Runtime) remember(s *session) (added bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	held := r.held[s.ThreadID]
	if slices.Contains(held, s.ID) {
		return false
	}
	r.held[s.ThreadID] = append(held, s.ID)
	return true
}

// forget notes that this process does not have the conversation: it refused to open
// it.
func (r *Runtime) forget(s *session) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.held[s.ThreadID] = slices.DeleteFunc(r.held[s.ThreadID], func(id string) bool { return id == s.ID })
	if len(r.held[s.ThreadID]) == 0 {
		delete(r.held, s.ThreadID)
	}
}

// holds reports whether a thread's conversation is remembered.
func (r *Runtime) holds(threadID, id string) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return slices.Contains(r.held[threadID], id)
}

// efforts are the pairs of an effort level that codex understands.
type efforts struct {
	model, reasoning string
}

func parseEfforts(args []string) efforts {
	var e efforts
	for pair := range slices.Chunk(args, 2) {
		if len(pair) < 2 {
			break
		}
		switch value := strings.TrimSpace(pair[1]); pair[0] {
		case "-m":
			e.model = value
		case "-c":
			if key, word, ok := strings.Cut(value, "="); ok && strings.TrimSpace(key) == "model_reasoning_effort" {
				e.reasoning = strings.TrimSpace(strings.Trim(strings.TrimSpace(word), `"`))
			}
		}
	}
	return e
}

// sandboxWord is the sandbox in which a session is opened.
func sandboxWord(p thread.Permission) string {
	switch p {
	case thread.PermitFull:
		return "danger-full-access"
	case thread.PermitWorkspace:
		return "workspace-write"
	}
	return "read-only"
}

// sandboxFor is the sandbox of each turn. In the workspace's, the folders for
// temporary files are closed: workspaces of other threads may lie there.
func sandboxFor(spec thread.SessionSpec) sandboxPolicy {
	offline := false
	switch spec.Permission {
	case thread.PermitFull:
		return sandboxPolicy{Type: "dangerFullAccess"}
	case thread.PermitWorkspace:
		return sandboxPolicy{
			Type: "workspaceWrite", WritableRoots: []string{spec.WorkspacePath}, NetworkAccess: &offline,
			ExcludeTmpdirEnvVar: true, ExcludeSlashTmp: true,
		}
	}
	return sandboxPolicy{Type: "readOnly", NetworkAccess: &offline}
}
