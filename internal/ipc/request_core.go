package ipc

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Capabilities name what this daemon offers beyond the oldest clients' needs.
var Capabilities = []string{
	"assets", "cancel_operation", "delete_thread", "idempotent_operations", "inspect", "list_threads",
	"origins", "read_events", "subscribe_after_seq", "tools", "unsubscribe_thread", "websocket",
}

// workspaceMarker is the file that an application leaves in a folder that it
// uses as a workspace.
const workspaceMarker = ".pedelec-workspace.json"

// pingRoute answers from memory prepared at start.
var pingRoute = &route{
	name:   "ping",
	inline: true,
	open:   true,
	decode: func(jsontext.Value) (any, error) { return nil, nil },
	run: func(_ context.Context, c *call, _ any, dst []byte) ([]byte, error) {
		if c.server.told.Load() {
			return append(dst, c.server.lastPong...), nil
		}
		return append(dst, c.server.pong...), nil
	},
}

func listProviders(ctx context.Context, c *call, dst []byte) ([]byte, error) {
	return c.server.appendProviders(dst, c.server.providers.List(ctx), forClients)
}

func refreshProviders(ctx context.Context, c *call, dst []byte) ([]byte, error) {
	return c.server.appendProviders(dst, c.server.providers.Refresh(ctx), forTheOperator)
}

// audience says whether paths on this machine may be shown.
type audience uint8

const (
	forClients audience = iota
	forTheOperator
)

// appendProviders appends every provider once, in the documented order:
// the SDK refuses a list with one entry that it does not know.
func (s *Server) appendProviders(dst []byte, known []thread.ProviderStatus, who audience) ([]byte, error) {
	standard, err := s.settings.DefaultProvider()
	if err != nil {
		standard = "" // unreadable settings only mean that nothing is the default
	}
	infos := make([]ProviderInfo, 0, len(thread.Providers))
	for _, p := range thread.Providers {
		info := ProviderInfo{Name: p.Name(), Code: p.String(), IsDefault: p.String() == standard}
		if i := slices.IndexFunc(known, func(st thread.ProviderStatus) bool { return st.Provider == p }); i >= 0 {
			st := known[i]
			info.Available = st.Available
			if st.Error != "" {
				info.Error = &st.Error
			}
			if who == forTheOperator {
				info.Path, info.Version = st.Path, st.Version
			}
		}
		infos = append(infos, info)
	}
	return appendJSON(dst, infos)
}

func getSettings(_ context.Context, c *call, dst []byte) ([]byte, error) {
	code, err := c.server.settings.DefaultProvider()
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"defaultProvider":`...)
	if code == "" {
		return append(dst, "null}"...), nil
	}
	return append(appendString(dst, code), '}'), nil
}

// pickWorkspaceFolder waits as long as the user takes to choose; only the
// connection that asked waits with him.
func pickWorkspaceFolder(ctx context.Context, c *call, dst []byte) ([]byte, error) {
	if c.server.picker == nil {
		return nil, fault.New(fault.DirectoryPickerFailed, "No folder picker is configured.")
	}
	ctx, done := c.server.whileServing(ctx)
	defer done()
	path, err := c.server.picker.Pick(ctx)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return append(dst, `{"path":null}`...), nil
	}
	empty, marked, err := inspectFolder(path)
	if err != nil {
		return nil, fault.Wrap(fault.DirectoryPickerFailed, "ipc.picker", err, "The chosen folder cannot be used.").
			With("path", path).With("error", err.Error())
	}
	dst = append(dst, `{"path":`...)
	dst = appendString(dst, path)
	dst = appendBool(dst, "isEmptyFolder", empty)
	dst = appendBool(dst, "hasWorkspaceConfig", marked)
	return append(dst, '}'), nil
}

// inspectFolder tells whether a folder has no entry at all, and whether an
// application marked it as its workspace before.
func inspectFolder(path string) (empty, marked bool, err error) {
	if !utf8.ValidString(path) {
		return false, false, errors.New("its path is not UTF-8")
	}
	dir, err := os.Open(path)
	if err != nil {
		return false, false, err
	}
	defer func() { _ = dir.Close() }() // read only: nothing can be lost
	_, err = dir.Readdirnames(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, false, err
	}
	empty = errors.Is(err, io.EOF)
	info, err := os.Lstat(filepath.Join(path, workspaceMarker))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, err
	}
	return empty, err == nil && info.Mode().IsRegular(), nil
}
