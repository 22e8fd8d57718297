package ipc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestPickedFolderIsDescribed(t *testing.T) {
	empty, hidden, marked, folder := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(hidden, ".hidden"), filepath.Join(marked, workspaceMarker)} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, workspaceMarker), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(hidden, ".hidden")
	for name, c := range map[string]struct {
		path string
		err  error
		want string
	}{
		"empty":              {empty, nil, `"isEmptyFolder":true,"hasWorkspaceConfig":false}}`},
		"hidden file":        {hidden, nil, `"isEmptyFolder":false,"hasWorkspaceConfig":false}}`},
		"marked":             {marked, nil, `"isEmptyFolder":false,"hasWorkspaceConfig":true}}`},
		"marker is a folder": {folder, nil, `"isEmptyFolder":false,"hasWorkspaceConfig":false}}`},
		"cancelled":          {"", nil, `"result":{"path":null}}`},
		"gone":               {filepath.Join(empty, "gone"), nil, `"code":"DIRECTORY_PICKER_FAILED"`},
		"a file":             {file, nil, `"code":"DIRECTORY_PICKER_FAILED"`},
		"not UTF-8":          {"/\xff", nil, `"code":"DIRECTORY_PICKER_FAILED"`},
		"picker failed":      {"", fault.New(fault.DirectoryPickerFailed, "no display"), `"message":"no display"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.settings.picked, r.settings.pickErr = c.path, c.err
			p := r.dial(t)
			p.send(`{"requestId":"p","type":"pick_workspace_folder","callerOrigin":"any words"}`)
			hasAll(t, p.line(), c.want)
		})
	}
}

func TestWithoutAPickerPickingFails(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Picker = nil })
	p := r.dial(t)
	p.send(`{"requestId":"p","type":"pick_workspace_folder","callerOrigin":"https://a.example"}`)
	hasAll(t, p.line(), "DIRECTORY_PICKER_FAILED")
}

func TestUnreadableSettingsOnlyHideTheDefaultProvider(t *testing.T) {
	r := newRig(t)
	r.settings.standard = "codex"
	r.settings.settingsErr = fault.New(fault.SettingsReadFailed, "").With("path", "p").With("error", "e")
	p := r.dial(t)
	p.send(`{"requestId":"l","type":"list_providers"}`, `{"requestId":"g","type":"get_settings"}`)
	line := p.line()
	hasAll(t, line, `"ok":true`)
	if strings.Contains(line, `"isDefault":true`) {
		t.Errorf("a default in %s", line)
	}
	hasAll(t, p.line(), `"code":"SETTINGS_READ_FAILED"`, `"details":{"error":"e","path":"p"}`)
}

func TestWhatACreateRequestBecomes(t *testing.T) {
	r := newRig(t)
	p := r.dial(t)
	p.send(`{"requestId":"c","type":"create_thread","callerSdkVersion":" 0.2 ","payload":{"provider":"cursor","effortLevel":"low","workspace":{"path":"/w"},"autoEndOnDisconnect":true,` +
		`"skills":{"guidance":" g ","tools":[{"name":"n","description":"d","argsSchema":{ "big" : 12345678901234567890.10 },"timeoutMs":18446744073709551615}]}}}`)
	hasAll(t, p.line(), `"ok":true`)
	got := r.threads.created[0]
	if got.Provider != thread.Cursor || got.Effort != thread.LowEffort || *got.WorkspacePath != "/w" || !got.AutoEnd {
		t.Errorf("%+v", got)
	}
	tool := got.Skills.Tools[0]
	if diff := cmp.Diff(`{"big":12345678901234567890.10}`, string(tool.ArgsSchema)); diff != "" {
		t.Errorf("argsSchema: %s", diff)
	}
	if got.Skills.Guidance != " g " || tool.Timeout.Hours() != 24 {
		t.Errorf("%+v", got.Skills)
	}
	if c := r.threads.callers[0]; c.SDKVersion != "0.2" || c.Token || c.OriginStated {
		t.Errorf("%+v", c)
	}
}

func TestErrorsOfOurOwnAreLoggedAndTellNothing(t *testing.T) {
	r := newRig(t)
	r.threads.fail["Snapshot"] = errors.New("open /secret/path: no")
	p := r.dial(t)
	p.send(`{"requestId":"s","type":"thread_snapshot","payload":{"threadId":"t"}}`)
	line := p.line()
	hasAll(t, line, `"code":"INTERNAL"`)
	if strings.Contains(line, "secret") {
		t.Errorf("told %s", line)
	}
	hasAll(t, r.log.String(), "/secret/path", `"request":"thread_snapshot"`)
}

func TestWithoutTransfersFilesCannotBeMoved(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Assets = nil })
	p := r.dial(t)
	for _, request := range []string{
		`{"requestId":"a","type":"create_asset_upload","payload":{"threadId":"t","filename":"a","sizeBytes":1}}`,
		`{"requestId":"a","type":"create_asset_download","payload":{"threadId":"t","path":"/a"}}`,
		`{"requestId":"a","type":"list_assets","payload":{"threadId":"t"}}`,
	} {
		p.send(request)
		hasAll(t, p.line(), "ASSET_UPLOAD_SERVER_UNAVAILABLE")
	}
}
