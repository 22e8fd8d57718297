package assets

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// writeChunk is how much is written under one deadline.
const writeChunk = 1 << 20

func (e *exchange) serveDownload(id string) {
	t, err := e.m.redeem(download, id, bearer(e.r))
	if err != nil {
		e.m.metrics.transfer(download, fault.From(err).Code, 0)
		e.refuse(err)
		return
	}
	defer t.finish()
	defer t.release()
	t.connect(e.conn)
	f, info, err := openAsset(t.workspace, t.segments)
	if err == nil && info.Size() > MaxFileBytes {
		f.Close()
		err = fmt.Errorf("the file has %d bytes now", info.Size())
	}
	if err != nil {
		err = fault.Wrap(fault.AssetReadFailed, "assets.open", err, "")
		e.m.metrics.transfer(download, fault.AssetReadFailed, 0)
		e.m.cfg.Log.Debug().Err(err).Str("threadId", t.threadID).Msg("A download failed.")
		t.release() // no file is open, and the thread's end waits for no client
		e.refuse(err)
		return
	}
	defer f.Close()
	e.sendFile(t, f, info)
}

// exposedHeaders are what pages may read besides what they always may.
const exposedHeaders = "Accept-Ranges, Content-Disposition, Content-Range, ETag"

// sendFile answers with the file, or the part of it that is asked for.
func (e *exchange) sendFile(t *transfer, f *os.File, info fs.FileInfo) {
	name := t.segments[len(t.segments)-1]
	h := e.w.Header()
	h.Set("Content-Type", mediaType(name))
	h.Set("Content-Disposition", disposition(name))
	h.Set("ETag", etag(info))
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	out := &pacedWriter{ResponseWriter: e.w, t: t}
	http.ServeContent(out, e.r, name, info.ModTime(), f)
	switch {
	case out.refused != 0:
		f.Close()
		t.release() // the thread's end waits for no client
		e.m.metrics.transfer(download, fault.InvalidInput, 0)
		e.refuseCondition(out.refused)
	case out.err != nil:
		e.m.metrics.transfer(download, fault.AssetReadFailed, out.written)
		e.m.cfg.Log.Debug().Err(out.err).Str("threadId", t.threadID).Msg("A download broke off.")
	default:
		e.m.metrics.transfer(download, "", out.written)
	}
}

// refuseCondition answers 412 and 416, which http.ServeContent found, in the
// form of all errors.
func (e *exchange) refuseCondition(status int) {
	h := e.w.Header()
	h.Del("Content-Disposition")
	h.Set("Cache-Control", "no-store") // http.ServeContent takes it away
	message := "The file has no such range."
	if status == http.StatusPreconditionFailed {
		message = "The file is not as the request requires it."
	}
	e.refuse(&refusal{status, fault.New(fault.InvalidInput, message)})
}

// etag names the state of a file.
func etag(info fs.FileInfo) string {
	return fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
}

// pacedWriter gives each write its time, and keeps errors of http.ServeContent,
// which are plain text, from the client.
type pacedWriter struct {
	http.ResponseWriter
	t       *transfer
	refused int // status of the error; 0 = none
	written int64
	err     error
}

// WriteHeader lets all statuses pass but errors.
func (w *pacedWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		w.refused = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes bytes of a multipart answer.
func (w *pacedWriter) Write(p []byte) (int, error) {
	if w.refused != 0 {
		return len(p), nil
	}
	if w.err = w.t.awaitReader(); w.err != nil {
		return 0, w.err
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	w.err = err
	return n, err
}

// ReadFrom writes a file, or a part of one, in chunks that the system copies by
// itself where it can.
func (w *pacedWriter) ReadFrom(src io.Reader) (n int64, err error) {
	part, ok := src.(*io.LimitedReader)
	if !ok {
		part = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	for part.N > 0 {
		if w.err = w.t.awaitReader(); w.err != nil {
			return n, w.err
		}
		chunk := min(part.N, writeChunk)
		copied, err := io.CopyN(w.ResponseWriter, part.R, chunk)
		part.N -= copied
		n += copied
		w.written += copied
		if err == io.EOF { // the file has become shorter; the connection breaks off
			return n, nil
		}
		if err != nil {
			w.err = err
			return n, err
		}
	}
	return n, nil
}
