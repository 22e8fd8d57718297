package assets

import (
	"errors"
	"net/http"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// uploaded is the body of the answer to an upload.
type uploaded struct {
	Path string `json:"path"` // public path
}

func (e *exchange) serveUpload(id string) {
	t, err := e.m.redeem(upload, id, bearer(e.r))
	if err != nil {
		e.m.metrics.transfer(upload, fault.From(err).Code, 0)
		e.refuse(err)
		return
	}
	digest, err := e.receive(t)
	if err != nil {
		e.m.metrics.transfer(upload, fault.From(err).Code, 0)
		e.logFailure(t, err)
		e.refuse(err)
		return
	}
	e.m.metrics.transfer(upload, "", t.size)
	e.m.cfg.Log.Debug().Str("threadId", t.threadID).Int64("bytes", t.size).Str("sha256", digest).Msg("A file was uploaded.")
	e.answer(http.StatusCreated, uploaded{publicPath(t.segments)})
}

// receive runs the transfer. Error: ASSET_UPLOAD_SIZE_MISMATCH, STORAGE_FULL or
// ASSET_UPLOAD_FAILED.
func (e *exchange) receive(t *transfer) (digest string, err error) {
	defer t.finish()
	defer t.release()
	t.connect(e.conn)
	if err := checkLength(e.r, t.size); err != nil {
		return "", err
	}
	e.reading = true
	digest, err = t.store(e.r.Body)
	switch {
	case err == nil:
		return digest, nil
	case isNoSpace(err) || fault.Is(err, fault.StorageFull):
		return "", fault.Wrap(fault.StorageFull, "assets.store", err, "")
	case errors.Is(err, errCutOff):
		return "", fault.Wrap(fault.AssetUploadFailed, "assets.store", err, "The thread ended, or the daemon shuts down.")
	}
	return "", fault.Wrap(fault.AssetUploadFailed, "assets.store", err, "")
}

// checkLength refuses a body that does not announce the length of the ticket.
func checkLength(r *http.Request, size int64) error {
	_, announced := r.Header["Content-Length"]
	mismatch := fault.New(fault.AssetUploadSizeMismatch, "").With("expectedBytes", size)
	switch {
	case !announced || r.ContentLength < 0:
		return &refusal{http.StatusLengthRequired, mismatch}
	case r.ContentLength > size:
		return &refusal{http.StatusRequestEntityTooLarge, mismatch.With("contentLength", r.ContentLength)}
	case r.ContentLength < size:
		return &refusal{http.StatusBadRequest, mismatch.With("contentLength", r.ContentLength)}
	}
	return nil
}

// logFailure tells what the client is not told. A client that goes away or a
// thread that ends is nobody's business.
func (e *exchange) logFailure(t *transfer, err error) {
	level := e.m.cfg.Log.Debug()
	if fault.Is(err, fault.StorageFull) {
		level = e.m.cfg.Log.Warn()
	}
	level.Err(err).Str("threadId", t.threadID).Msg("An upload failed.")
}
