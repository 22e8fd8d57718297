package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// maxErrorBody bounds what is read of a refusal.
const maxErrorBody = 64 << 10

func (a *app) assetsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "assets",
		Short: "List, upload and download the files that a thread shares with its page",
		Long: "List, upload and download the files that a thread shares with its page. They lie in\n" +
			".pedelec-runtime/assets of its folder; their paths begin with / there.",
		GroupID: groupWork,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	ls := &cobra.Command{
		Use:   "ls THREAD",
		Short: "List the files, newest first",
		RunE:  func(cmd *cobra.Command, args []string) error { return a.assetsLs(cmd.Context(), args[0]) },
	}
	a.addJSON(ls)
	cmd.AddCommand(ls,
		&cobra.Command{
			Use:   "put THREAD FILE [PATH]",
			Short: "Upload a file and print its path",
			Long: "Upload a file and print its path. With PATH, such as /in/photo.png, it is stored\n" +
				"there in place of what there was; else under a fresh name made from its own.",
			RunE: interruptible(func(ctx context.Context, args []string) error {
				return a.assetsPut(ctx, args[0], args[1], at(args, 2))
			}),
		},
		&cobra.Command{
			Use:   "get THREAD PATH [FILE]",
			Short: "Download a file; FILE may be - for standard output",
			Long: "Download a file. FILE is replaced if it is there; without one the file is stored here\n" +
				"under its own name, unless there is one already. - writes it to standard output.",
			RunE: interruptible(func(ctx context.Context, args []string) error {
				return a.assetsGet(ctx, args[0], args[1], at(args, 2))
			}),
		},
	)
	return cmd
}

// at returns an optional argument, "" if it is not given.
func at(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// interruptible makes Ctrl-C cancel a command, so that it can tidy up.
func interruptible(run func(context.Context, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err := run(ctx, args)
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted; nothing was stored")
		}
		return err
	}
}

func (a *app) assetsLs(ctx context.Context, threadID string) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	var list ipc.AssetList
	if err := c.Call(ctx, "list_assets", threadPayload(threadID), &list); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(list)
	}
	if len(list.Assets) == 0 {
		_, err := fmt.Fprintln(a.stdout, "The thread has no files; upload one with: pedelec-core assets put", threadID, "FILE")
		return err
	}
	rows := [][]string{{"SIZE", "CHANGED", "PATH"}}
	for _, f := range list.Assets {
		rows = append(rows, []string{byteCount(f.SizeBytes), time.UnixMilli(f.ModifiedAt).Format(time.DateTime), f.Path})
	}
	if err := a.printTable(rows); err != nil {
		return err
	}
	if list.Truncated {
		fmt.Fprintln(a.stderr, "There are more, older files than one answer holds.")
	}
	return nil
}

// uploaded is the answer to an upload.
type uploaded struct {
	Path string `json:"path"`
}

func (a *app) assetsPut(ctx context.Context, threadID, file, target string) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	stored, err := putAsset(ctx, c, threadID, file, target, a.progressOf)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, stored)
	return err
}

// watcher lets somebody watch how much of a stream has gone by.
type watcher func(r io.Reader, name string, total int64) (watched io.Reader, done func())

// unwatched is the watcher where nobody watches.
func unwatched(r io.Reader, _ string, _ int64) (io.Reader, func()) { return r, func() {} }

// putAsset uploads a file and returns its public path.
func putAsset(ctx context.Context, c *ipc.Client, threadID, file, target string, watch watcher) (string, error) {
	f, size, err := openRegular(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	payload := map[string]any{"threadId": threadID, "filename": filepath.Base(file), "sizeBytes": size}
	if target != "" {
		payload["targetPath"] = target
	}
	var ticket ipc.UploadTicket
	if err := c.Call(ctx, "create_asset_upload", payload, &ticket); err != nil {
		return "", err
	}
	var body io.Reader = http.NoBody // of an empty file, or its length would not be told
	done := func() {}
	if size > 0 {
		body, done = watch(f, filepath.Base(file), size)
	}
	defer done()
	resp, err := transfer(ctx, http.MethodPut, ticket.UploadURL, ticket.Token, body, size)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer uploaded
	if err := json.UnmarshalRead(resp.Body, &answer); err != nil {
		return "", fault.Wrap(fault.AssetUploadFailed, "assets.put", err, "The daemon's answer to the upload cannot be read.")
	}
	return answer.Path, nil
}

// openRegular opens a file of which the size is known.
func openRegular(file string) (*os.File, int64, error) {
	info, err := os.Stat(file) // before the opening, which waits at a pipe
	if err != nil {
		return nil, 0, fmt.Errorf("the file cannot be uploaded: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file, so it cannot be uploaded", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, fmt.Errorf("the file cannot be uploaded: %w", err)
	}
	return f, info.Size(), nil
}

func (a *app) assetsGet(ctx context.Context, threadID, assetPath, file string) (err error) {
	if file == "" {
		file = path.Base(assetPath)
		if _, err := os.Lstat(file); err == nil {
			return fmt.Errorf("there is a file %s here already; name the FILE to replace or another one", file)
		}
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if file == fromStdin {
		return getAsset(ctx, c, threadID, assetPath, a.stdout, a.progressOf)
	}
	return replaceFile(file, func(w io.Writer) error { return getAsset(ctx, c, threadID, assetPath, w, a.progressOf) })
}

// getAsset downloads a file.
func getAsset(ctx context.Context, c *ipc.Client, threadID, assetPath string, to io.Writer, watch watcher) error {
	var ticket ipc.DownloadTicket
	payload := map[string]any{"threadId": threadID, "path": assetPath}
	if err := c.Call(ctx, "create_asset_download", payload, &ticket); err != nil {
		return err
	}
	resp, err := transfer(ctx, http.MethodGet, ticket.DownloadURL, ticket.Token, nil, 0)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, done := watch(resp.Body, ticket.Name, resp.ContentLength)
	defer done()
	if _, err := io.Copy(to, body); err != nil {
		return fmt.Errorf("the download broke off: %w", err)
	}
	return nil
}

// replaceFile writes a file next to its place and moves it there when it is whole.
func replaceFile(file string, write func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".pedelec-get-*")
	if err != nil {
		return fmt.Errorf("the file cannot be stored: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := write(tmp); err != nil {
		return err
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("the file cannot be stored: %w", err)
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return fmt.Errorf("the file cannot be stored: %w", err)
	}
	return nil
}

// transfer makes one request with a ticket. The caller closes the body of its
// answer. An error answer is returned as the error that it tells of.
func transfer(ctx context.Context, method, url, token string, body io.Reader, size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("the daemon's address for the file cannot be used: %w", err)
	}
	req.ContentLength = size
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}} // and no proxy
	resp, err := client.Do(req)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("the transfer broke off: %w", err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusalOf(resp)
}

// refusalOf reads the error of an answer.
func refusalOf(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var told struct {
		Error ipc.ErrorBody `json:"error"`
	}
	if err != nil || json.Unmarshal(text, &told) != nil || told.Error.Code == "" {
		return fmt.Errorf("the transfer was refused: %s %s", resp.Status, bytes.TrimSpace(text))
	}
	return told.Error.Err()
}
