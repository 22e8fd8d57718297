package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/settings"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/workspace"
)

// newInstanceID returns the id of one run of the daemon.
func newInstanceID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// profiles gives the lifecycle what the settings say of providers.
type profiles struct{ file *settings.File }

func (p profiles) EffortArgs(code thread.Provider, level thread.Effort) ([]string, error) {
	return p.file.EffortArgs(code.String(), level.String())
}

func (p profiles) Permission(code thread.Provider) thread.Permission {
	permission, ok := thread.ParsePermission(p.file.Permission(code.String()))
	if !ok {
		return thread.PermitReadOnly
	}
	return permission
}

// unusableProgram stands for a program that the settings name in a way which
// cannot be understood. Nothing is found under it: starting another program than
// the one that was asked for would be a surprise.
const unusableProgram = "The program"

// override tells the providers what the settings say of a program.
func (d *core) override(p thread.Provider) provider.Override {
	command, err := d.settings.Command(p.String())
	if err != nil {
		command = []string{unusableProgram} // the log has told of the entry when it was read
	}
	return provider.Override{Command: command, Env: d.settings.Env(p.String())}
}

// ownWorkspaces knows which temporary workspaces this run made while it clears up
// after an earlier one, so that they are left alone.
type ownWorkspaces struct {
	*workspace.Manager

	mu   sync.Mutex
	made map[string]struct{} // nil = there is nothing of an earlier run any more
}

func newOwnWorkspaces(m *workspace.Manager, log zerolog.Logger) *ownWorkspaces {
	m.Log = log
	return &ownWorkspaces{Manager: m, made: map[string]struct{}{}}
}

// CreateManaged is the manager's, noted before there is anything to be removed.
func (w *ownWorkspaces) CreateManaged(threadID string) (string, func(), error) {
	w.mu.Lock()
	if w.made != nil {
		w.made[threadID] = struct{}{}
	}
	w.mu.Unlock()
	return w.Manager.CreateManaged(threadID)
}

// clear removes what earlier runs left and returns what could not be removed. It
// is called once: from then on every workspace is our own, and none is noted.
func (w *ownWorkspaces) clear(ctx context.Context) []workspace.Leftover {
	left := w.RemoveAllManaged(ctx, w.isOurs)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = nil
	return left
}

func (w *ownWorkspaces) isOurs(threadID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ours := w.made[threadID]
	return ours
}
