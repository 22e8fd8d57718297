package ipc

import (
	"context"
	"fmt"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// memoryAssets is an Assets that makes tickets for nothing. A thread of another
// id than t0000000000000001 is unknown; a path with "gone" is not there.
type memoryAssets struct{}

func (memoryAssets) find(threadID string) error {
	if threadID != "t0000000000000001" {
		return fault.New(fault.ThreadNotFound, "").With("threadId", threadID)
	}
	return nil
}

func (m memoryAssets) CreateUpload(_ context.Context, _ thread.Caller, r AssetUpload) (UploadTicket, error) {
	id := fmt.Sprintf("upl_%s_%d", r.Filename, r.SizeBytes)
	if r.TargetPath != nil {
		id += *r.TargetPath
	}
	return UploadTicket{UploadID: id, UploadURL: "http://127.0.0.1:1/uploads/x", Token: "secret", ExpiresAt: 1767323045678}, m.find(r.ThreadID)
}

func (m memoryAssets) CreateDownload(_ context.Context, _ thread.Caller, threadID, path string) (DownloadTicket, error) {
	if strings.Contains(path, "gone") {
		return DownloadTicket{}, fault.New(fault.AssetNotFound, "").With("path", path)
	}
	return DownloadTicket{
		DownloadID: "dnl_1", DownloadURL: "http://127.0.0.1:1/downloads/x", Token: "secret", Path: path, Name: path[1:],
		SizeBytes: 3, MimeType: "text/plain", ExpiresAt: 1767323045678,
	}, m.find(threadID)
}

func (m memoryAssets) List(_ context.Context, c thread.Caller, threadID string) (AssetList, error) {
	if c.OriginStated {
		return AssetList{Assets: []Asset{}}, m.find(threadID)
	}
	return AssetList{Assets: []Asset{{Name: "<a>.txt", Path: "/<a>.txt", SizeBytes: 3, ModifiedAt: 7}}, Truncated: true}, m.find(threadID)
}
