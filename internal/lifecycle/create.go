package lifecycle

import (
	"context"
	"crypto/rand"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/tool"
)

// Create makes a thread. All checks that write nothing come first; what was made
// is removed again when a later step fails. No provider is started.
func (s *Service) Create(ctx context.Context, c thread.Caller, r thread.CreateRequest) (string, error) {
	if s.closing.Load() {
		return "", leaving()
	}
	if c.OriginStated && c.Origin == "" {
		return "", fault.New(fault.ThreadAccessDenied, "The stated callerOrigin is not a web origin.")
	}
	if r.Effort == 0 {
		r.Effort = thread.DefaultEffort
	}
	args, err := s.cfg.Profiles.EffortArgs(r.Provider, r.Effort)
	if err != nil {
		return "", err
	}
	skills, err := checkSkills(r.Skills)
	if err != nil {
		return "", err
	}
	if r.WorkspacePath != nil && c.Origin != "" && c.SDKVersion == "" {
		return "", fault.New(fault.WorkspaceCreateFailed, "A web page that brings its own workspace must state its SDK version.").
			With("path", *r.WorkspacePath).With("error", "callerSdkVersion is missing")
	}
	id := newThreadID()
	workspace, keep, undo, err := s.makeWorkspace(c, id, r.WorkspacePath)
	if err != nil {
		return "", err
	}
	if err := s.cfg.Store.Commit(s.firstCommit(c, id, r, args, skills, workspace)); err != nil {
		undo()
		return "", err
	}
	keep()
	_ = fault.Point(PointAfterCreate)
	return id, nil
}

func checkSkills(given *tool.Skills) (*tool.Skills, error) {
	if given == nil {
		return nil, nil
	}
	checked, err := given.Check()
	if err != nil {
		return nil, err
	}
	return &checked, nil
}

func (s *Service) makeWorkspace(c thread.Caller, id string, path *string) (w thread.Workspace, keep, undo func(), err error) {
	w = thread.Workspace{Managed: path == nil, Instance: s.cfg.Instance}
	if path == nil {
		w.Path, undo, err = s.cfg.Workspaces.CreateManaged(id)
		keep = func() {}
	} else {
		w.Path, keep, undo, err = s.cfg.Workspaces.CreateCustom(*path, c.SDKVersion, c.Origin)
	}
	return w, keep, undo, err
}

// firstCommit is a new thread with its first two events.
func (s *Service) firstCommit(c thread.Caller, id string, r thread.CreateRequest, args []string, skills *tool.Skills, w thread.Workspace) thread.Commit {
	now := s.cfg.Now().UTC()
	return thread.Commit{
		Create: true,
		Record: thread.Record{
			ID: id, Revision: 1, Instance: s.cfg.Instance,
			Provider: r.Provider, Effort: r.Effort, EffortArgs: args,
			Owner: c.Origin, Workspace: w, AutoEnd: r.AutoEnd,
			CreatedAt: now, UpdatedAt: now,
			Status: thread.Idle, LatestSeq: 2,
		},
		Skills: skills,
		Events: []thread.Event{
			{Kind: thread.EventCreated, Seq: 1},
			{Kind: thread.EventStatusChanged, Seq: 2, Status: thread.Idle},
		},
	}
}

const (
	idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	idRandom   = 16 // characters after the t: 82 bits, not to be guessed
)

// newThreadID returns "t" and random lower-case base-36 characters.
func newThreadID() string {
	id := []byte{'t'}
	var random [2 * idRandom]byte
	for len(id) < 1+idRandom {
		rand.Read(random[:])
		for _, b := range random {
			// 252 is the largest multiple of 36 in a byte; above it the
			// alphabet's start would be likelier.
			if b < 252 && len(id) < 1+idRandom {
				id = append(id, idAlphabet[int(b)%len(idAlphabet)])
			}
		}
	}
	return string(id)
}
