package ipc

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// settingsPayload is the settings file's own shape, which only the settings
// know.
type settingsPayload struct {
	raw jsontext.Value
}

// UnmarshalJSON keeps the payload as it came.
func (p *settingsPayload) UnmarshalJSON(data []byte) error {
	p.raw = jsontext.Value(data).Clone()
	return p.raw.Compact()
}

func (p *settingsPayload) check() error {
	if p.raw == nil {
		return errors.New("the payload is missing")
	}
	return nil
}

func updateSettings(ctx context.Context, c *call, p *settingsPayload, dst []byte) ([]byte, error) {
	now, err := c.server.settings.Update(ctx, p.raw)
	if err != nil {
		return nil, err
	}
	if err := now.Compact(); err != nil {
		return nil, fault.Wrap(fault.Internal, "ipc.update_settings", err, "The settings could not be encoded.")
	}
	return append(dst, now...), nil
}

func listRuntimes(_ context.Context, c *call, dst []byte) ([]byte, error) {
	list := RuntimeList{Runtimes: []RuntimeInfo{}}
	for _, r := range c.server.providers.Runtimes() {
		list.Runtimes = append(list.Runtimes, runtimeInfo(&r))
	}
	return appendJSON(dst, list)
}

func runtimeInfo(r *thread.RuntimeInfo) RuntimeInfo {
	return RuntimeInfo{
		RuntimeID: r.RuntimeID,
		Provider:  r.Provider.String(),
		PID:       r.PID,
		StartedAt: r.StartedAt.UTC(),
		Sessions:  r.Sessions,
		Turns:     r.Turns,
		RSSBytes:  r.RSSBytes,
	}
}

type backupPayload struct {
	Path *string `json:"path"`
}

func (p *backupPayload) check() error {
	if p.Path == nil {
		return missing("path")
	}
	return nil
}

// backup takes an absolute path only: the daemon's working directory is not the
// caller's.
func backup(ctx context.Context, c *call, p *backupPayload, dst []byte) ([]byte, error) {
	if strings.TrimSpace(*p.Path) == "" || !filepath.IsAbs(*p.Path) {
		return nil, fault.New(fault.InvalidInput, "The path of a backup is absolute.").With("path", *p.Path)
	}
	bytes, err := c.server.operator.Backup(ctx, *p.Path)
	if err != nil {
		return nil, err
	}
	dst = append(dst, `{"bytes":`...)
	dst = strconv.AppendInt(dst, bytes, 10)
	return append(dst, '}'), nil
}

// shutdown only begins it: the answer is written before the connection closes. Who
// has read it and starts a daemon must not find this one serving.
func shutdown(_ context.Context, c *call, dst []byte) ([]byte, error) {
	c.server.Leave()
	c.server.operator.Shutdown()
	return append(dst, "{}"...), nil
}
