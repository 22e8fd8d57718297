package main

import (
	"context"

	"github.com/pedelec/pedelec-core/internal/assets"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// assetThreads is what the transfers need of the threads. It looks for the
// threads when it is asked: they are made after the transfers.
type assetThreads struct{ d *core }

func (t assetThreads) Thread(ctx context.Context, c thread.Caller, threadID string) (assets.Info, error) {
	s, err := t.d.threads.Thread(ctx, c, threadID)
	return assets.Info{Owner: s.Owner, Workspace: s.WorkspacePath, Status: s.Status}, err
}

func (t assetThreads) Stage(ctx context.Context, threadID, name string) error {
	return t.d.threads.Stage(ctx, threadID, name)
}

// transfers is what the threads need of the transfers.
type transfers struct{ *assets.Manager }

func (transfers) RemoveStaged(workspacePath, name string) error {
	return assets.RemoveStaged(workspacePath, name)
}

// assetRequests puts tickets and lists into the shape of the wire.
type assetRequests struct{ m *assets.Manager }

func (r assetRequests) CreateUpload(ctx context.Context, c thread.Caller, u ipc.AssetUpload) (ipc.UploadTicket, error) {
	t, err := r.m.CreateUpload(ctx, c, assets.UploadRequest(u))
	if err != nil {
		return ipc.UploadTicket{}, err
	}
	return ipc.UploadTicket{UploadID: t.UploadID, UploadURL: t.UploadURL, Token: t.Token, ExpiresAt: t.ExpiresAt.UnixMilli()}, nil
}

func (r assetRequests) CreateDownload(ctx context.Context, c thread.Caller, threadID, path string) (ipc.DownloadTicket, error) {
	t, err := r.m.CreateDownload(ctx, c, threadID, path)
	if err != nil {
		return ipc.DownloadTicket{}, err
	}
	return ipc.DownloadTicket{
		DownloadID: t.DownloadID, DownloadURL: t.DownloadURL, Token: t.Token,
		Path: t.Path, Name: t.Name, SizeBytes: t.SizeBytes, ModifiedAt: t.ModifiedAt.UnixMilli(),
		MimeType: t.MimeType, ExpiresAt: t.ExpiresAt.UnixMilli(),
	}, nil
}

func (r assetRequests) List(ctx context.Context, c thread.Caller, threadID string) (ipc.AssetList, error) {
	listing, err := r.m.List(ctx, c, threadID)
	if err != nil {
		return ipc.AssetList{}, err
	}
	list := ipc.AssetList{Assets: make([]ipc.Asset, 0, len(listing.Assets)), Truncated: listing.Truncated}
	for _, a := range listing.Assets {
		list.Assets = append(list.Assets, ipc.Asset{Name: a.Name, Path: a.Path, SizeBytes: a.SizeBytes, ModifiedAt: a.ModifiedAt.UnixMilli()})
	}
	return list, nil
}
