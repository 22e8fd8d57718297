package store

import (
	bolt "go.etcd.io/bbolt"
)

// Unsettled returns up to limit ids of threads that an earlier daemon left in
// need of settling, in order, after a given one. Threads of this instance cost
// no more than a look at their header. Error: STORAGE_FAILED.
func (s *Store) Unsettled(after string, limit int) ([]string, error) {
	var ids []string
	for limit > 0 {
		live, err := s.Live(after, maxViewKeys)
		if err != nil {
			return nil, err
		}
		if len(live) == 0 {
			return ids, nil
		}
		found, err := s.needSettling(live)
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			if ids = append(ids, id); len(ids) == limit {
				return ids, nil
			}
		}
		after = live[len(live)-1]
	}
	return ids, nil
}

// needSettling returns those of some threads that need settling, in one
// transaction.
func (s *Store) needSettling(ids []string) (need []string, err error) {
	err = s.view("store.unsettled", func(tx *bolt.Tx) error {
		threads := tx.Bucket(bucketThreads)
		for _, id := range ids {
			v := threads.Get([]byte(id))
			if v == nil || string(summaryInstance(v)) == s.InstanceID {
				continue
			}
			r, err := decodeRecord(id, v)
			if err != nil {
				return err
			}
			if r.NeedsSettling(s.InstanceID) {
				need = append(need, id)
			}
		}
		return nil
	})
	return need, err
}
