package store

import (
	bolt "go.etcd.io/bbolt"
)

// EndWithDaemon returns ids of threads that are not ended and cannot outlive the daemon
// that runs, ordered, after a given one. It leaves out what List does. Error:
// STORAGE_FAILED.
func (s *Store) EndWithDaemon(after string, limit int) ([]string, error) {
	return s.liveThat("store.ending", after, limit, func(id string, v []byte) (bool, error) {
		r, err := decodeRecord(id, v)
		return err == nil && r.EndsWithDaemon(), err
	})
}

// Unsettled returns ids of threads that are not ended and that an earlier daemon
// left in a state that cannot go on, ordered, after a given one. Records are read
// where they lie, so it costs little to find that there are none. It leaves out
// what List does. Error: STORAGE_FAILED.
func (s *Store) Unsettled(after string, limit int) ([]string, error) {
	return s.liveThat("store.unsettled", after, limit, s.needsSettling)
}

// liveThat returns ids of live threads whose stored record satisfies a condition.
func (s *Store) liveThat(op, after string, limit int, match func(id string, v []byte) (bool, error)) ([]string, error) {
	if limit <= 0 {
		return nil, nil
	}
	var ids []string
	err := s.scanThreads(op, bucketLive, after, func(tx *bolt.Tx, id, _ []byte) (copied int, more bool, err error) {
		matches, err := match(string(id), tx.Bucket(bucketThreads).Get(id))
		if err != nil || !matches {
			return 0, true, err
		}
		ids = append(ids, string(id))
		return len(id), len(ids) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

func (s *Store) needsSettling(id string, v []byte) (bool, error) {
	if _, err := decodeHeader(v); err != nil {
		return false, err
	}
	if string(summaryInstance(v)) == s.InstanceID {
		return false, nil
	}
	r, err := decodeRecord(id, v)
	return err == nil && r.NeedsSettling(s.InstanceID), err
}
