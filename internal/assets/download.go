package assets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/workspace"
)

// DownloadTicket is the right to download one file until the ticket expires.
type DownloadTicket struct {
	DownloadID  string
	DownloadURL string
	Token       string
	Path        string // public path
	Name        string
	SizeBytes   int64
	ModifiedAt  time.Time
	MimeType    string
	ExpiresAt   time.Time
}

// CreateDownload makes a download ticket for a public path. Checks, in order:
// those of [Threads].Thread; THREAD_ENDED details {threadId}; then with details
// {path}: ASSET_PATH_INVALID, ASSET_NOT_FOUND, ASSET_NOT_FILE (a symbolic link
// on the way, or no regular file), ASSET_READ_FAILED, ASSET_READ_TOO_LARGE (also
// {sizeBytes, maxBytes}); ASSET_UPLOAD_SERVER_UNAVAILABLE.
func (m *Manager) CreateDownload(ctx context.Context, c thread.Caller, threadID, path string) (DownloadTicket, error) {
	v, err := m.visit(ctx, c, threadID)
	if err != nil {
		return DownloadTicket{}, err
	}
	defer v.leave()
	if err := v.openNow(); err != nil {
		return DownloadTicket{}, err
	}
	segments, err := splitPublic(path, forReading)
	if err != nil {
		return DownloadTicket{}, err
	}
	f, info, err := openAsset(v.Workspace, segments)
	if err != nil {
		return DownloadTicket{}, notReadable(err, path)
	}
	f.Close()
	if info.Size() > MaxFileBytes {
		return DownloadTicket{}, fault.New(fault.AssetReadTooLarge, "").
			With("path", path).With("sizeBytes", info.Size()).With("maxBytes", MaxFileBytes)
	}
	endpoint, err := m.endpoint()
	if err != nil {
		return DownloadTicket{}, err
	}
	t, token := v.newTicket(download)
	t.segments = segments
	if err := v.fileDownload(t); err != nil {
		return DownloadTicket{}, err
	}
	return DownloadTicket{
		DownloadID: t.id, DownloadURL: t.url(endpoint), Token: token,
		Path: path, Name: info.Name(), SizeBytes: info.Size(), ModifiedAt: notBeforeEpoch(info.ModTime()),
		MimeType: mediaType(info.Name()), ExpiresAt: t.expires,
	}, nil
}

// fileDownload makes the ticket valid, unless the thread's end has begun
// meanwhile.
func (v *visit) fileDownload(t *ticket) error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if err := v.open(); err != nil {
		return err
	}
	v.m.file(v.desk, t)
	return nil
}

// splitPublic is splitPath with details for the wire.
func splitPublic(path string, u use) ([]string, error) {
	segments, err := splitPath(path, u)
	if err != nil {
		return nil, fault.From(err).With("path", path)
	}
	return segments, nil
}

// openAsset opens a regular file below the assets folder, and no other.
func openAsset(workspacePath string, segments []string) (*os.File, fs.FileInfo, error) {
	root, err := workspace.OpenAssets(workspacePath)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	folder, name := segments[:len(segments)-1], segments[len(segments)-1]
	dir, err := root.Descend(folder, workspace.Refuse)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	return dir.OpenFile(name)
}

// notReadable gives the failure to open an asset its code.
func notReadable(err error, path string) error {
	code := fault.AssetReadFailed
	switch {
	case errors.Is(err, workspace.ErrLink), errors.Is(err, workspace.ErrNotRegular), errors.Is(err, workspace.ErrSwapped):
		code = fault.AssetNotFile
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, workspace.ErrNotDirectory):
		code = fault.AssetNotFound // a file stands where a folder would have to
	}
	return fault.Wrap(code, "assets.open", err, "").With("path", path)
}

// notBeforeEpoch keeps times representable on the wire, as milliseconds since
// 1970 that are never negative.
func notBeforeEpoch(t time.Time) time.Time {
	if t.Before(time.UnixMilli(0)) {
		return time.UnixMilli(0)
	}
	return t
}
