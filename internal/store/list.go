package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// List reads a page of summaries, ordered by id. The status of a thread that an
// earlier daemon left unsettled is the one that settling will give it. Page.Next
// is "" when no further thread fits the query. A thread whose record cannot be
// read is left out, and Healthy tells. Error: STORAGE_FAILED.
func (s *Store) List(q thread.ListQuery) (thread.Page, error) {
	q.Limit = thread.ClampLimit(q.Limit)
	var page thread.Page
	err := s.scanThreads("store.list", bucketThreads, q.After, func(_ *bolt.Tx, id, v []byte) (copied int, more bool, err error) {
		h, err := decodeHeader(v)
		if err != nil {
			return 0, false, err
		}
		status, err := s.settledStatus(h.status, string(id), v)
		if err != nil {
			return 0, false, err
		}
		if q.Status != 0 && status != q.Status || q.Owner != "" && string(summaryOwner(v)) != q.Owner {
			return 0, true, nil
		}
		if len(page.Threads) == q.Limit {
			page.Next = page.Threads[q.Limit-1].ThreadID
			return 0, false, nil
		}
		t, err := decodeSummary(id, v)
		if err != nil {
			return 0, false, err
		}
		t.Status = status
		page.Threads = append(page.Threads, t)
		return len(t.ThreadID) + len(t.Owner) + len(t.WorkspacePath) + summaryBytes, true, nil
	})
	if err != nil {
		return thread.Page{}, err
	}
	return page, nil
}

// settledStatus returns the status of a stored record, or the one that settling
// will give it. Only records of an earlier instance need to be decoded for that.
func (s *Store) settledStatus(stored thread.Status, id string, v []byte) (thread.Status, error) {
	if stored == thread.Ended || string(summaryInstance(v)) == s.InstanceID {
		return stored, nil
	}
	r, err := decodeRecord(id, v)
	if err != nil {
		return 0, err
	}
	return r.SettledStatus(s.InstanceID), nil
}

// summaryBytes is about the size of a summary without its strings.
const summaryBytes = 160

// Live returns ids of threads that are not ended, ordered, after a given one.
// Error: STORAGE_FAILED.
func (s *Store) Live(after string, limit int) ([]string, error) {
	var ids []string
	if limit <= 0 {
		return nil, nil
	}
	err := s.scan("store.live", bucketLive, after, func(_ *bolt.Tx, id, _ []byte) (copied int, more bool, err error) {
		ids = append(ids, string(id))
		return len(id), len(ids) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// EndedOldestFirst returns up to limit ended threads, the one that was updated
// longest ago first. It walks all threads, so it is for retention, not for
// requests, and leaves out what List does. Error: STORAGE_FAILED.
func (s *Store) EndedOldestFirst(limit int) ([]thread.Summary, error) {
	if limit <= 0 {
		return nil, nil
	}
	older := func(a, b thread.Summary) int { return a.UpdatedAt.Compare(b.UpdatedAt) }
	var oldest []thread.Summary
	youngest := int64(0) // of oldest[:limit], once there are so many
	err := s.scanThreads("store.ended", bucketThreads, "", func(_ *bolt.Tx, id, v []byte) (copied int, more bool, err error) {
		h, err := decodeHeader(v)
		if err != nil {
			return 0, false, err
		}
		if h.status != thread.Ended || youngest != 0 && h.updated >= youngest {
			return 0, true, nil
		}
		t, err := decodeSummary(id, v)
		if err != nil {
			return 0, false, err
		}
		oldest = append(oldest, t)
		if len(oldest) == 2*limit {
			slices.SortStableFunc(oldest, older)
			oldest = oldest[:limit]
			youngest = nanoseconds(oldest[limit-1].UpdatedAt)
		}
		return len(t.ThreadID) + len(t.Owner) + len(t.WorkspacePath) + summaryBytes, true, nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(oldest, func(a, b thread.Summary) int {
		return cmp.Or(older(a, b), cmp.Compare(a.ThreadID, b.ThreadID))
	})
	return oldest[:min(limit, len(oldest))], nil
}

// A visitor looks at one key of a scan. It returns how many bytes it copied and
// whether it wants more.
type visitor func(tx *bolt.Tx, id, v []byte) (copied int, more bool, err error)

// scanThreads is scan for visitors that read records. A thread whose record
// cannot be read is skipped: its damage must not hide all others.
func (s *Store) scanThreads(op string, bucket []byte, after string, visit visitor) error {
	return s.scan(op, bucket, after, func(tx *bolt.Tx, id, v []byte) (copied int, more bool, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errDamaged, p)
			}
			if errors.Is(err, errDamaged) {
				_ = s.damaged(op, fmt.Errorf("thread %q: %w", id, err))
				copied, more, err = 0, true, nil
			}
		}()
		return visit(tx, id, v)
	})
}

// scan walks a bucket after an id, in as many transactions as their bounds ask
// for.
func (s *Store) scan(op string, bucket []byte, after string, visit visitor) error {
	position := []byte(after)
	for done := false; !done; {
		err := s.view(op, func(tx *bolt.Tx) error {
			c := tx.Bucket(bucket).Cursor()
			k, v := c.Seek(position)
			if k != nil && string(k) == string(position) {
				k, v = c.Next()
			}
			keys, bytes := 0, 0
			for ; k != nil; k, v = c.Next() {
				copied, more, err := visit(tx, k, v)
				if err != nil {
					return err
				}
				if !more {
					done = true
					return nil
				}
				keys, bytes = keys+1, bytes+copied
				if keys == maxViewKeys || bytes > maxViewBytes {
					position = append(position[:0], k...)
					return nil
				}
			}
			done = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
