package ipc

import (
	"context"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// uploadPayload is the payload of create_asset_upload. The media type is taken
// and not used: it follows from a file's name whenever the file is read.
type uploadPayload struct {
	threadPayload
	Filename   *string `json:"filename"`
	SizeBytes  *uint64 `json:"sizeBytes"`
	MimeType   *string `json:"mimeType"`
	TargetPath *string `json:"targetPath"`
}

func (p *uploadPayload) check() error {
	switch {
	case p.ThreadID == nil:
		return missing("threadId")
	case p.Filename == nil:
		return missing("filename")
	case p.SizeBytes == nil:
		return missing("sizeBytes")
	}
	return nil
}

func createAssetUpload(ctx context.Context, c *call, p *uploadPayload, dst []byte) ([]byte, error) {
	if c.server.assets == nil {
		return nil, noTransfers()
	}
	ticket, err := c.server.assets.CreateUpload(ctx, c.caller, AssetUpload{
		ThreadID: *p.ThreadID, Filename: *p.Filename, SizeBytes: *p.SizeBytes, TargetPath: p.TargetPath,
	})
	if err != nil {
		return nil, err
	}
	return appendJSON(dst, ticket)
}

// downloadPayload is the payload of create_asset_download.
type downloadPayload struct {
	threadPayload
	Path *string `json:"path"`
}

func (p *downloadPayload) check() error {
	switch {
	case p.ThreadID == nil:
		return missing("threadId")
	case p.Path == nil:
		return missing("path")
	}
	return nil
}

func createAssetDownload(ctx context.Context, c *call, p *downloadPayload, dst []byte) ([]byte, error) {
	if c.server.assets == nil {
		return nil, noTransfers()
	}
	ticket, err := c.server.assets.CreateDownload(ctx, c.caller, *p.ThreadID, *p.Path)
	if err != nil {
		return nil, err
	}
	return appendJSON(dst, ticket)
}

func listAssets(ctx context.Context, c *call, p *threadPayload, dst []byte) ([]byte, error) {
	if c.server.assets == nil {
		return nil, noTransfers()
	}
	list, err := c.server.assets.List(ctx, c.caller, *p.ThreadID)
	if err != nil {
		return nil, err
	}
	return appendJSON(dst, list)
}

func noTransfers() error { return fault.New(fault.AssetUploadServerUnavailable, "") }
