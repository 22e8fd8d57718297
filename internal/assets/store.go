package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/workspace"
)

const (
	// uploadBuffer is what an upload costs in memory.
	uploadBuffer = 256 << 10
	// forgetTimeout bounds the wait for the thread's record once an upload is
	// over; a name that stays there does no harm.
	forgetTimeout = 10 * time.Second
)

// errMoved is the cause when the target's folder was replaced during an upload.
var errMoved = errors.New("the folder of the target was moved or replaced meanwhile")

// store receives a body into the file for which the ticket stands and returns
// its SHA-256. It ends with the thread's record free of the temporary file's
// name, unless that file could not be removed.
func (t *transfer) store(body io.Reader) (digest string, err error) {
	staged, digest, err := t.stageAndCommit(body)
	t.release()
	if staged == stagedNever || staged == stagedStuck {
		return digest, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetTimeout)
	defer cancel()
	if forgetErr := t.m.cfg.Threads.Stage(ctx, t.threadID, ""); forgetErr != nil {
		t.m.cfg.Log.Warn().Err(forgetErr).Str("threadId", t.threadID).
			Msg("The name of an upload's temporary file stays in the thread's record; the file itself is gone.")
	}
	return digest, err
}

// stagedFate says what has become of the temporary file.
type stagedFate uint8

const (
	stagedNever stagedFate = iota // its name was not recorded
	stagedGone                    // renamed or removed
	stagedStuck                   // it could not be removed; its name must stay recorded
)

// stageAndCommit writes the temporary file in the folder of its target and
// renames it.
func (t *transfer) stageAndCommit(body io.Reader) (fate stagedFate, digest string, err error) {
	folder, name := t.segments[:len(t.segments)-1], t.segments[len(t.segments)-1]
	temporary := reservedPrefix + t.id
	dir, err := openFolder(workspace.MakeAssets, t.workspace, folder, workspace.Make)
	if err != nil {
		return stagedNever, "", err
	}
	defer dir.Close()
	if err := mayReplace(dir, name); err != nil {
		return stagedNever, "", err
	}
	recorded := path.Join(workspace.AssetsPath, path.Join(folder...), temporary)
	if err := t.m.cfg.Threads.Stage(t.ctx, t.threadID, recorded); err != nil {
		return stagedNever, "", err
	}
	digest, err = t.write(dir, temporary, body)
	if err == nil {
		err = t.commit(dir, folder, temporary, name)
	}
	if err == nil {
		return stagedGone, digest, nil
	}
	if removeErr := dir.Remove(temporary); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
		return stagedStuck, "", errors.Join(err, removeErr)
	}
	return stagedGone, "", err
}

// openFolder opens a folder below the assets folder of a workspace.
func openFolder(open func(string) (*workspace.Dir, error), workspacePath string, folder []string, missing workspace.Missing) (*workspace.Dir, error) {
	root, err := open(workspacePath)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Descend(folder, missing)
}

// mayReplace refuses a target that exists and is no regular file, before its
// body is received.
func mayReplace(dir *workspace.Dir, name string) error {
	if _, err := dir.Regular(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write receives the body into a new file and forces it to disk.
func (t *transfer) write(dir *workspace.Dir, name string, body io.Reader) (digest string, err error) {
	if err := errors.Join(t.alive(), fault.Point("assets.upload.staged")); err != nil {
		return "", err
	}
	f, err := dir.CreateFile(name)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = t.receive(f, sum, body)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), fault.Point("assets.upload.written")
}

// receive copies exactly the announced number of bytes.
func (t *transfer) receive(f *os.File, sum hash.Hash, body io.Reader) error {
	buf := make([]byte, uploadBuffer)
	for left := t.size; left > 0; {
		if err := t.awaitBody(); err != nil {
			return err
		}
		n, err := body.Read(buf[:min(left, uploadBuffer)])
		left -= int64(n)
		sum.Write(buf[:n])
		if _, err := f.Write(buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) && left > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil && left > 0 {
			return errors.Join(t.alive(), err)
		}
		if err := fault.Point("assets.upload.chunk"); err != nil {
			return err
		}
	}
	return nil
}

// commit gives the temporary file its name. The way to the folder is walked
// again, since it may have been moved among the user's own files meanwhile.
func (t *transfer) commit(dir *workspace.Dir, folder []string, temporary, name string) error {
	if err := t.alive(); err != nil {
		return err
	}
	again, err := openFolder(workspace.OpenAssets, t.workspace, folder, workspace.Refuse)
	if err != nil {
		return err
	}
	defer again.Close()
	same, err := again.Same(dir)
	if err != nil {
		return err
	}
	if !same {
		return errMoved
	}
	if err := dir.Replace(temporary, name); err != nil {
		return err
	}
	return fault.Point("assets.upload.renamed")
}
