package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/settings"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/workspace"
)

func TestNothingStartsBeforeTheSweepIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swept := make(chan struct{})
		starter := proc.New(nil, "instance", zerolog.Nop())
		starter.Close() // a start that gets through is refused, and not with ctx's error
		s := sweptStarter{starter, swept}
		result := make(chan error, 1)
		go func() {
			_, err := s.Start(t.Context(), proc.Spec{})
			result <- err
		}()
		synctest.Wait()
		select {
		case err := <-result:
			t.Fatalf("the start did not wait: %v", err)
		default:
		}
		close(swept)
		if err := <-result; err == nil {
			t.Error("a closed starter started something")
		}
	})
}

func TestACallerNeedNotWaitForTheSweep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sweptStarter{nil, make(chan struct{})}.Start(ctx, proc.Spec{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that of the context", err)
	}
}

func TestClearingUpLeavesTheWorkspacesOfThisRunAlone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "workspaces")
	const old, fresh = "t0000000000000old", "t00000000000fresh"
	if _, _, err := workspace.New(root).CreateManaged(old); err != nil {
		t.Fatal(err)
	}
	w := newOwnWorkspaces(workspace.New(root), zerolog.Nop())
	path, _, err := w.CreateManaged(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if left := w.RemoveAllManaged(t.Context(), w.isOurs); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
	if _, err := os.Stat(filepath.Join(root, old)); err == nil {
		t.Error("the old workspace is still there")
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the fresh workspace is gone: %v", err)
	}
}

func TestSettingsReachTheProviders(t *testing.T) {
	file := filepath.Join(t.TempDir(), settingsFile)
	const text = `{"providerSettings": {
		"opencode": {"command": ["prog", "arg"], "env": {"A": "b"}, "permission": "full"},
		"cursor": {"command": [1]}
	}}`
	if err := os.WriteFile(file, []byte(text), fileMode); err != nil {
		t.Fatal(err)
	}
	d := &core{settings: settings.New(file)}
	o := d.override(thread.OpenCode)
	if len(o.Command) != 2 || o.Command[0] != "prog" || o.Env["A"] != "b" {
		t.Errorf("opencode: %+v", o)
	}
	if o := d.override(thread.Cursor); len(o.Command) != 1 || o.Command[0] != unusableProgram {
		t.Errorf("a command that cannot be understood becomes %+v", o)
	}
	if o := d.override(thread.Codex); o.Command != nil {
		t.Errorf("a provider without an entry: %+v", o)
	}
	p := profiles{d.settings}
	if got := p.Permission(thread.OpenCode); got != thread.PermitFull {
		t.Errorf("permission of opencode = %v", got)
	}
	if got := p.Permission(thread.Codex); got != thread.PermitWorkspace {
		t.Errorf("permission of codex = %v", got)
	}
	if args, err := p.EffortArgs(thread.OpenCode, thread.LowEffort); err != nil || len(args) != 0 {
		t.Errorf("effort of opencode = %v, %v", args, err)
	}
}
