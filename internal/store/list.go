package store

import (
	"bytes"
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
// for. A page that cannot be read is passed over: its damage must not hide what lies
// behind it. Only where nothing tells what lies there, the scan fails.
func (s *Store) scan(op string, bucket []byte, after string, visit visitor) error {
	p := &position{key: []byte(after)}
	for !p.done {
		p.tookBack = false
		err := s.view(op, func(tx *bolt.Tx) error { return p.walk(tx.Bucket(bucket).Cursor(), visit) })
		if err == nil {
			continue
		}
		if !errors.Is(err, errDamaged) || p.refused {
			return err
		}
		if p.tookBack {
			continue
		}
		if known := s.passOver(op, bucket, p); !known {
			return err
		}
	}
	return nil
}

// passOver moves a position behind the page at which a walk failed. It reports
// whether the tree above that page can be read.
func (s *Store) passOver(op string, bucket []byte, p *position) (known bool) {
	o, err := s.enter(brief)
	if err != nil {
		return false
	}
	defer o.leave(brief)
	err = s.readIn(o, op, func(tx *bolt.Tx) error {
		tree := branchesOf(o, tx)
		root := uint64(tx.Bucket(bucket).Root())
		if _, err := tree.read(root); err != nil {
			return err
		}
		next := tree.next(root, p.key)
		p.key, p.at, p.done = append(p.key[:0], next...), true, next == nil
		return nil
	})
	return err == nil
}

// position is how far a scan has come.
type position struct {
	key     []byte // the last one that was visited, or the next one
	at      bool   // the key itself comes next
	done    bool
	refused bool // the visitor ended the scan

	spare    []byte // the one before
	odd      []byte // one that was too large for its place; key is the one behind it
	back     []byte // the furthest one that was gone back to
	tookBack bool   // the last walk found it
}

// moveTo puts the position behind a key. The key may turn out to be unreadable, so
// the old one is not written over.
func (p *position) moveTo(key []byte) {
	p.spare = append(p.spare[:0], key...)
	p.key, p.spare, p.at = p.spare, p.key, false
}

// walk visits what follows, up to the bounds of one transaction.
func (p *position) walk(c *bolt.Cursor, visit visitor) error {
	k, v := c.Seek(p.key)
	if k != nil && (!p.at && bytes.Equal(k, p.key) || p.odd != nil && bytes.Equal(k, p.odd)) {
		k, v = c.Next()
	}
	p.odd = nil
	keys, copiedBytes := 0, 0
	for ; k != nil; k, v = c.Next() {
		if order := bytes.Compare(k, p.key); order < 0 || order == 0 && !p.at || len(k) > maxKeyBytes {
			if order < 0 && !p.at && len(k) <= maxKeyBytes && p.spare != nil && bytes.Compare(k, p.spare) > 0 && bytes.Compare(k, p.back) > 0 {
				// This one fits, so it is the last one that did not. To go on behind that
				// would hide all that lies between. It ends, since back only grows.
				p.back = bytes.Clone(k)
				p.odd, p.key, p.at, p.tookBack = p.key, bytes.Clone(k), true, true
			}
			return fmt.Errorf("%w: a key is not where it belongs", errDamaged)
		}
		copied, more, err := visit(c.Bucket().Tx(), k, v)
		if err != nil {
			p.refused = true
			return err
		}
		p.moveTo(k)
		if !more {
			p.done = true
			return nil
		}
		keys, copiedBytes = keys+1, copiedBytes+copied
		if keys == maxViewKeys || copiedBytes > maxViewBytes {
			return nil
		}
	}
	p.done = true
	return nil
}
