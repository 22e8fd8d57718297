package assets

import (
	"context"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// UploadRequest asks for the right to upload one file.
type UploadRequest struct {
	ThreadID   string
	Filename   string
	SizeBytes  uint64
	TargetPath *string // public path; nil = chosen by the daemon, after the file's name
}

// UploadTicket is the right to upload one file, once.
type UploadTicket struct {
	UploadID  string
	UploadURL string
	Token     string
	ExpiresAt time.Time
}

// CreateUpload makes an upload ticket. Checks, in order: those of
// [Threads].Thread; INVALID_INPUT for a file name that is none; ASSET_TOO_LARGE
// details {sizeBytes, maxBytes}; ASSET_UPLOAD_SERVER_UNAVAILABLE; THREAD_ENDED
// and THREAD_BUSY (an upload of this thread is running), details {threadId};
// ASSET_PATH_INVALID details {path}.
func (m *Manager) CreateUpload(ctx context.Context, c thread.Caller, r UploadRequest) (UploadTicket, error) {
	v, err := m.visit(ctx, c, r.ThreadID)
	if err != nil {
		return UploadTicket{}, err
	}
	defer v.leave()
	if err := checkFilename(r.Filename); err != nil {
		return UploadTicket{}, err
	}
	if r.SizeBytes > MaxFileBytes {
		return UploadTicket{}, fault.New(fault.AssetTooLarge, "").With("sizeBytes", r.SizeBytes).With("maxBytes", MaxFileBytes)
	}
	endpoint, err := m.endpoint()
	if err != nil {
		return UploadTicket{}, err
	}
	t, token := v.newTicket(upload)
	t.size = int64(r.SizeBytes)
	var badTarget error
	t.segments, badTarget = target(r, t.id)
	if err := v.fileUpload(t, badTarget); err != nil {
		return UploadTicket{}, err
	}
	return UploadTicket{UploadID: t.id, UploadURL: t.url(endpoint), Token: token, ExpiresAt: t.expires}, nil
}

func checkFilename(name string) error {
	switch strings.TrimSpace(name) {
	case "", ".", "..":
		return fault.New(fault.InvalidInput, "The file needs a name.")
	}
	return nil
}

// target returns the segments of the path at which an upload is stored.
func target(r UploadRequest, uploadID string) ([]string, error) {
	if r.TargetPath == nil {
		return []string{uploadID + "-" + safeName(r.Filename)}, nil
	}
	return splitPublic(*r.TargetPath, forUpload)
}

// fileUpload makes the ticket valid. That the target is bad is told after what
// is wrong with the thread.
func (v *visit) fileUpload(t *ticket, badTarget error) error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if err := v.open(); err != nil {
		return err
	}
	if v.desk.uploading {
		return fault.New(fault.ThreadBusy, "Another upload of this thread is running.").With("threadId", v.threadID)
	}
	if badTarget != nil {
		return badTarget
	}
	v.m.file(v.desk, t)
	return nil
}
