package store

import (
	"errors"
	"io/fs"
	"os"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// errReplaced says that the file that is open is not the one that the next start
// would find.
var errReplaced = errors.New("the file was removed, or another was put in its place")

// inPlace returns errReplaced when a path does not lead to the file of the opening: what
// is written there would be gone with the process.
func (o *opening) inPlace(path string) error {
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errReplaced
	}
	if err != nil {
		return nil // nobody knows, so a write may say what is wrong
	}
	open, err := o.file.Stat()
	if err == nil && !os.SameFile(named, open) {
		return errReplaced
	}
	return nil
}

// checkPlace is inPlace for the opening that is in use. It tells the log when that
// changes.
func (s *Store) checkPlace() error {
	err := s.opened.inPlace(s.path)
	switch {
	case err != nil && s.misplaced.CompareAndSwap(false, true):
		s.Log.Error().Str("path", s.path).
			Msg("The database was removed or replaced while it is in use. Changes are refused: put the file back, or restart the daemon to serve what is there now.")
	case err == nil && s.misplaced.CompareAndSwap(true, false):
		s.Log.Info().Msg("The database is in its place again.")
	}
	return err
}

func replacedFault(cause error) error {
	return fault.Wrap(fault.StorageFailed, "store.healthy", cause, "The database was removed or replaced while it is in use.")
}
