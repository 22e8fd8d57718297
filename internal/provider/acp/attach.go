package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Attach opens a thread's session: the one that it had, else a fresh one.
func (r *Runtime) Attach(ctx context.Context, spec thread.SessionSpec, sink thread.Sink) (thread.Attachment, error) {
	if err := r.authenticate(ctx); err != nil {
		return thread.Attachment{}, err
	}
	r.dismiss(ctx, spec.ThreadID)
	s := &session{
		r:      r,
		Seat:   provider.Seat{ThreadID: spec.ThreadID, Out: provider.NewOutlet(sink)},
		policy: provider.Policy{Permission: spec.Permission, Workspace: spec.WorkspacePath, BinDir: r.link.BinDir},
	}
	settled := r.offer(s, spec.Tools)
	defer settled()
	state, lost, err := r.resume(ctx, s, spec)
	if err != nil {
		return thread.Attachment{}, err
	}
	fresh := s.ID == ""
	if fresh {
		if state, err = r.open(ctx, s, spec); err != nil {
			return thread.Attachment{}, err
		}
	}
	if err := r.settle(ctx, s, state, spec, fresh); err != nil {
		r.discard(s)
		return thread.Attachment{}, err
	}
	r.link.Changed()
	return thread.Attachment{Conversation: s, SessionID: s.ID, Fresh: fresh, Lost: lost, Witness: s.witness()}, nil
}

// dismiss takes the thread's older sessions out of use and closes them in the
// agent.
func (r *Runtime) dismiss(ctx context.Context, threadID string) {
	for _, old := range r.Dismiss(threadID) {
		old.Out.Shut()
		if err := r.closeSession(ctx, old.ID); err != nil {
			r.link.Log.Debug().Err(err).Msg("an old session could not be closed")
		}
	}
}

// resume opens the session that the thread had. A session that the agent does not
// know leaves s.ID empty and returns why.
func (r *Runtime) resume(ctx context.Context, s *session, spec thread.SessionSpec) (state sessionState, lost *fault.Error, err error) {
	if spec.SessionID == "" {
		return state, nil, nil
	}
	method := "session/resume"
	switch {
	case r.caps.canResume():
	case r.caps.LoadSession:
		method = "session/load"
	default:
		return state, r.fault(fault.ProviderSessionLost, "session/load",
			r.flavour.Provider.Name()+" cannot resume conversations.", nil), nil
	}
	s.ID, s.replaying = spec.SessionID, true
	if err := r.Take(s); err != nil {
		return state, nil, err
	}
	err = r.call(ctx, r.flavour.Open, method, openSessionParams{spec.SessionID, spec.WorkspacePath, s.servers}, &state)
	if err != nil {
		r.Leave(s)
		s.ID, s.replaying = "", false
		var known *fault.Error
		if errors.As(err, &known) && known.Code == fault.ProviderSessionLost {
			return state, known, nil
		}
		return state, nil, err
	}
	r.Mu.Lock()
	s.replaying = false
	r.Mu.Unlock()
	return state, nil, nil
}

// open opens a fresh session. One that is answered after the caller has left is
// closed again.
func (r *Runtime) open(ctx context.Context, s *session, spec thread.SessionSpec) (state sessionState, err error) {
	late := func(result jsontext.Value) {
		var orphan sessionState
		if jsonrpc.Unmarshal(result, &orphan) == nil && orphan.SessionID != "" {
			r.release(orphan.SessionID)
		}
	}
	params := newSessionParams{spec.WorkspacePath, s.servers}
	if err := r.conn.CallLate(ctx, r.flavour.Open, "session/new", params, &state, late); err != nil {
		return state, r.failure("session/new", err)
	}
	if state.SessionID == "" {
		return state, r.fault(fault.ProviderProtocolError, "session/new",
			r.flavour.Provider.Name()+" opened a session without an id.", nil)
	}
	s.ID = state.SessionID
	return state, r.Take(s)
}

// settle makes an open session ready for its first turn.
func (r *Runtime) settle(ctx context.Context, s *session, state sessionState, spec thread.SessionSpec, fresh bool) error {
	if err := r.configure(ctx, s.ID, state, spec.EffortArgs); err != nil {
		return err
	}
	preamble, path := spec.Instructions(s.channel()), ""
	if !fresh && r.instructed(spec, preamble) {
		preamble = ""
	}
	if preamble != "" {
		var err error
		if path, err = r.keepInstructions(spec, preamble); err != nil {
			return err
		}
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	s.preamble, s.copyPath = preamble, path
	r.Reserve(s)
	return nil
}

// keepInstructions writes the host instructions where the agent can read them
// again.
func (r *Runtime) keepInstructions(spec thread.SessionSpec, text string) (path string, err error) {
	if !r.flavour.keepsFile || spec.PrivateDir == nil {
		return "", nil
	}
	dir, err := spec.PrivateDir()
	if err == nil {
		path = filepath.Join(dir, instructionsFile)
		err = replaceFile(path, text)
	}
	if err != nil {
		return "", r.fault(fault.ProviderRequestFailed, "instructions",
			"The host instructions could not be written into the workspace.", err)
	}
	return path, nil
}

// replaceFile writes a file in place of whatever stands there: the workspace is
// the agent's, which may have put a link there.
func replaceFile(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".instructions-*")
	if err != nil {
		return fmt.Errorf("write instructions: %w", err)
	}
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write instructions: %w", err)
	}
	return nil
}

// discard closes a session that never got ready. It waits for nobody.
func (r *Runtime) discard(s *session) {
	s.Out.Shut()
	r.Leave(s)
	r.release(s.ID)
	r.link.Changed()
}
