package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Damage tells what happened to a file that could not be read.
type Damage struct {
	At      time.Time
	MovedTo string // where the file is now
	Reason  string
}

// Suffixes of files beside the database.
const (
	suffixNew     = ".new"     // a fresh database in the making
	suffixCompact = ".compact" // a compacted copy in the making
	suffixDamaged = ".damaged-"
	suffixOld     = ".schema-" // copy made before an upgrade
	stampLayout   = "20060102T150405.000Z"
)

// causeOf is an error of the file system without the path, which its sentence names.
func causeOf(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func openFault(cause error, msg string) error {
	return fault.Wrap(fault.StorageFailed, "store.open", cause, msg)
}

// open makes s.opened usable: made, moved aside, upgraded or just opened, and
// marked as in use.
func (s *Store) open() error {
	if err := s.followLink(); err != nil {
		return err
	}
	for _, suffix := range []string{suffixNew, suffixCompact} {
		// What a crash left half made holds nothing that the database lacks.
		if err := os.Remove(s.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return openFault(err, fmt.Sprintf("The left-over file %s cannot be removed.", s.path+suffix))
		}
	}
	if err := s.createIfMissing(); err != nil {
		return err
	}
	o, err := s.openAndBegin()
	if isDamage(err) {
		if err := s.moveAside(errors.Unwrap(err)); err != nil { // without our sentence about it
			return err
		}
		if err := s.createIfMissing(); err != nil {
			return err
		}
		o, err = s.openAndBegin()
	}
	if err != nil {
		return err
	}
	s.opened = o
	return nil
}

// openAndBegin opens the file and marks it as in use. An error that isDamage knows
// is about what is in it.
func (s *Store) openAndBegin() (*opening, error) {
	o, err := s.openChecked()
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, openFault(err, fmt.Sprintf("Another program has the database %s open. End it, then start again.", s.path))
	case err != nil:
		return nil, openFault(err, fmt.Sprintf("The database %s cannot be opened (%v).", s.path, causeOf(err)))
	}
	if err := s.begin(o); err != nil {
		_ = o.close()
		return nil, err
	}
	return o, nil
}

// followLink makes path that of the file itself, since a rename onto a link would
// replace the link. A link to nowhere is not replaced by a fresh database: the
// threads are where it leads, on a disk that is not mounted, perhaps.
func (s *Store) followLink() error {
	info, err := os.Lstat(s.path)
	if err == nil && info.IsDir() {
		return openFault(nil, fmt.Sprintf("%s is a folder and no database. Move it away and start again.", s.path))
	}
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		return nil
	}
	file, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		target, _ := os.Readlink(s.path) // only to be shown
		return openFault(err, fmt.Sprintf("The database %s is a link to %s, which cannot be reached. Mount what it leads to, or remove the link, and start again.", s.path, target))
	}
	s.path = file
	return nil
}

// begin upgrades the file if it is older and marks it as in use.
func (s *Store) begin(o *opening) error {
	found, clean := uint32(0), false
	err := guarded(o.view, func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		found = schemaOf(meta)
		clean = meta.Get(metaClean) != nil
		return nil
	})
	if err != nil {
		return openFault(err, "The database cannot be read.")
	}
	if found > s.schema {
		return openFault(nil, fmt.Sprintf("The database %s has schema %d, and this program knows schemas up to %d. Use the newer version of the program, or another home folder.", s.path, found, s.schema))
	}
	if found < s.schema {
		if err := s.migrate(o, found); err != nil {
			return err
		}
	}
	s.unclean = !clean || s.damage != nil // a damaged file took its ledgers along
	err = guarded(o.update, func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if err := meta.Delete(metaClean); err != nil {
			return err
		}
		return meta.Put(metaInstance, []byte(s.InstanceID))
	})
	if err == nil {
		err = fault.Point(pointOpenDirty)
	}
	if err != nil {
		return s.openWriteFault(err)
	}
	return nil
}

func (s *Store) openWriteFault(err error) error {
	if s.isFull(err) {
		return fault.Wrap(fault.StorageFull, "store.open", err, fmt.Sprintf("The disk has no room for the database %s. Make some, then start again.", s.path))
	}
	return openFault(err, fmt.Sprintf("The database %s cannot be written (%v).", s.path, causeOf(err)))
}

// createIfMissing makes a fresh database under another name and renames it, so
// that a file at the path is a whole database or a damaged one, never one that
// a crash left half made.
func (s *Store) createIfMissing() error {
	if _, err := os.Stat(s.path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := s.create(s.path + suffixNew); err != nil {
		_ = os.Remove(s.path + suffixNew)
		return s.openWriteFault(err)
	}
	return nil
}

func (s *Store) create(temporary string) error {
	options := s.options()
	options.InitialMmapSize = 0
	db, err := bolt.Open(temporary, fileMode, options)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if err := meta.Put(metaSchema, binary.BigEndian.AppendUint32(nil, s.schema)); err != nil {
			return err
		}
		if err := meta.Put(metaClean, present); err != nil {
			return err
		}
		return meta.Put(metaCreated, []byte(s.Now().UTC().Format(time.RFC3339)))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := fault.Point(pointCreateBefore); err != nil {
		return err
	}
	if err := os.Rename(temporary, s.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.path))
}

// options are those of every open: the freelist is a hash map, because the
// array one slows down in a large, fragmented file, and it is synced, so that
// opening costs the same however large the file is.
func (s *Store) options() *bolt.Options {
	return &bolt.Options{
		Timeout:         s.LockTimeout,
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: initialMmap(s.MaxStoreBytes),
	}
}

// openFile opens the database and turns a panic of bbolt into an error that
// isDamage knows.
func (s *Store) openFile(path string) (o *opening, err error) {
	var file *os.File
	options := s.options()
	options.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
		return file, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if file != nil {
				_ = release(file) // the mapping is lost
			}
			o, err = nil, fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	db, err := bolt.Open(path, fileMode, options)
	if err != nil && options.InitialMmapSize > 0 && isNoMemory(err) {
		// An address space limit: begin small and grow.
		options.InitialMmapSize = 0
		db, err = bolt.Open(path, fileMode, options)
	}
	if err != nil {
		return nil, err
	}
	return newOpening(db, file), nil
}

// openChecked opens the file and reads enough of it to tell that it is whole.
func (s *Store) openChecked() (*opening, error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("%w: it is empty", errDamaged) // bbolt would take it for a new one
	}
	o, err := s.openFile(s.path)
	if err != nil {
		return nil, err
	}
	if err := firstRead(o, info.Size()); err != nil {
		_ = o.close()
		return nil, err
	}
	if err := os.Chmod(s.path, fileMode); err != nil {
		_ = o.close()
		return nil, err
	}
	return o, nil
}

// firstRead looks at the root, at the list of the pages that may be written to, at
// the topmost page of each bucket and at one path down either end of it.
func firstRead(o *opening, fileBytes int64) error {
	return guarded(o.view, func(tx *bolt.Tx) error {
		if tx.Size() > fileBytes {
			return fmt.Errorf("%w: it has %d of %d bytes", errDamaged, fileBytes, tx.Size())
		}
		meta := tx.Bucket(bucketMeta)
		if meta == nil || schemaOf(meta) == 0 {
			return fmt.Errorf("%w: it does not say which schema it has", errDamaged)
		}
		tree := branchesOf(o, tx)
		if err := tree.checkFreelist(tx); err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			root := uint64(b.Root())
			if err := errors.Join(tree.checkTop(root), tree.checkEnds(root)); err != nil {
				return fmt.Errorf("the table %s: %w", name, err)
			}
			b.Cursor().First()
			b.Cursor().Last()
			return nil
		})
	})
}

func schemaOf(meta *bolt.Bucket) uint32 {
	v := meta.Get(metaSchema)
	if len(v) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(v)
}

// isDamage reports whether an error of opening speaks about the file's content.
// Everything else (no permission, no memory, in use) is not the file's fault.
func isDamage(err error) bool {
	for _, known := range []error{errDamaged, berrors.ErrInvalid, berrors.ErrVersionMismatch, berrors.ErrChecksum} {
		if errors.Is(err, known) {
			return true
		}
	}
	return err != nil && tooSmall(err)
}

// moveAside keeps a damaged file under another name.
func (s *Store) moveAside(cause error) error {
	now := s.Now().UTC()
	aside := s.path + suffixDamaged + now.Format(stampLayout)
	if _, err := os.Lstat(aside); err == nil {
		return openFault(cause, fmt.Sprintf("The database %s is damaged, and %s exists already. Move it away and start again.", s.path, aside))
	}
	if err := os.Rename(s.path, aside); err != nil {
		return openFault(errors.Join(cause, err), fmt.Sprintf("The database %s is damaged and cannot be moved aside. Move it away and start again.", s.path))
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		s.Log.Warn().Err(err).Msg("The folder of the database could not be synced.")
	}
	s.damage = &Damage{At: now, MovedTo: aside, Reason: cause.Error()}
	s.Log.Error().Err(cause).Str("path", s.path).Str("movedTo", aside).
		Msg("THE DATABASE WAS DAMAGED. It was moved aside, and a fresh one is started: its threads are missing until it is repaired or a backup is put in its place. Keep the file, and see docs/OPERATIONS.md.")
	return nil
}

// tooSmall recognises bbolt's words for a file without room for two pages; it
// has no error value for them.
func tooSmall(err error) bool { return strings.Contains(err.Error(), "file size too small") }
