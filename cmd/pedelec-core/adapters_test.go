package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/settings"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/workspace"
)

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
	if left := w.clear(t.Context()); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
	if _, err := os.Stat(filepath.Join(root, old)); err == nil {
		t.Error("the old workspace is still there")
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the fresh workspace is gone: %v", err)
	}
	if _, _, err := w.CreateManaged("t00000000000later"); err != nil || len(w.made) > 0 {
		t.Errorf("%d workspaces are noted after the clearing, error %v", len(w.made), err)
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
