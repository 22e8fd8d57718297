package store

import (
	bolt "go.etcd.io/bbolt"
)

// Unsettled returns ids of threads that are not ended and that an earlier daemon
// left in a state that cannot go on, ordered, after a given one. Records are read
// where they lie, so it costs little to find that there are none. It leaves out
// what List does. Error: STORAGE_FAILED.
func (s *Store) Unsettled(after string, limit int) ([]string, error) {
	var ids []string
	if limit <= 0 {
		return nil, nil
	}
	err := s.scanThreads("store.unsettled", bucketLive, after, func(tx *bolt.Tx, id, _ []byte) (copied int, more bool, err error) {
		needed, err := s.needsSettling(string(id), tx.Bucket(bucketThreads).Get(id))
		if err != nil || !needed {
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
