package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// migrate copies the older file and lifts it to the current schema in one
// transaction.
func (s *Store) migrate(o *opening, found uint32) error {
	kept := fmt.Sprintf("%s%s%d-%s", s.path, suffixOld, found, s.Now().UTC().Format(stampLayout))
	if err := s.keepOld(o, kept); err != nil {
		if isNoSpace(err) {
			return fault.Wrap(fault.StorageFull, "store.open", err, fmt.Sprintf("The database is of an older version, and the disk has no room to copy it to %s before its upgrade; nothing was changed. Make room, then start again.", kept))
		}
		return openFault(err, fmt.Sprintf("The database is of an older version and could not be copied to %s before its upgrade (%v); nothing was changed.", kept, causeOf(err)))
	}
	if err := fault.Point(pointMigrateBefore); err != nil {
		return openFault(err, "The database could not be upgraded.")
	}
	err := guarded(o.update, func(tx *bolt.Tx) error {
		for _, m := range s.migrations {
			if m.to <= found || m.to > s.schema {
				continue
			}
			if err := m.apply(tx); err != nil {
				return fmt.Errorf("upgrade to schema %d: %w", m.to, err)
			}
		}
		return tx.Bucket(bucketMeta).Put(metaSchema, binary.BigEndian.AppendUint32(nil, s.schema))
	})
	if err != nil {
		return openFault(err, fmt.Sprintf("The database could not be upgraded from schema %d to %d; nothing was changed, and a copy is at %s.", found, s.schema, kept))
	}
	s.Log.Info().Uint32("from", found).Uint32("to", s.schema).Str("copy", kept).Msg("The database was upgraded.")
	return nil
}

// keepOld copies the file before an upgrade. The copy gets its name when it is whole,
// so that what a crash leaves of one is not taken for it.
func (s *Store) keepOld(o *opening, kept string) error {
	unfinished := s.path + suffixNew
	err := guarded(o.view, func(tx *bolt.Tx) error {
		_, err := writeCopy(unfinished, func(f io.Writer) (int64, error) {
			w := &stoppable{w: f, stop: func() error { return nil }}
			n, err := tx.WriteTo(w)
			return n, cmp.Or(w.err, err) // bbolt may have passed on the text only
		})
		return err
	})
	if err != nil {
		return err
	}
	if err := fault.Point(pointMigrateCopied); err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	if err := os.Rename(unfinished, kept); err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return syncDir(filepath.Dir(kept))
}
