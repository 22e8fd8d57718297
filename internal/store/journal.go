package store

import (
	"bytes"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// maxTrimmedAtOnce bounds the events that retention removes in one commit. It
// is more than a commit adds, so that a lowered limit is reached soon.
const maxTrimmedAtOnce = 1000

// journalFill is how full a page is left that splits. A thread's events come in
// order, so what is left behind is not written again; bbolt's own half would be
// room for nothing.
const journalFill = 0.9

// journal appends an item's events and removes the oldest groups over the
// limits.
func (w *writer) journal(it *item, c *counters) error {
	if len(it.events) == 0 {
		return nil
	}
	b := w.tx.Bucket(bucketJournal)
	b.FillPercent = journalFill
	for _, p := range it.events {
		if err := b.Put(p.key, p.value); err != nil {
			return err
		}
	}
	c.events += uint32(len(it.events))
	c.bytes += it.eventBytes
	if !w.s.overLimit(c) {
		return nil
	}
	for _, key := range w.s.trim(b, it, c) {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) overLimit(c *counters) bool {
	return int64(c.events) > int64(s.MaxJournalEvents) || c.bytes > uint64(s.MaxJournalBytes)
}

// trim takes the oldest whole groups out of the counters until they are within
// the limits and returns their keys. What the item itself adds is never
// trimmed.
func (s *Store) trim(b *bolt.Bucket, it *item, c *counters) (keys [][]byte) {
	prefix := appendPrefix(make([]byte, 0, maxIDBytes+1), string(it.key))
	cursor := b.Cursor()
	k, v := cursor.Seek(prefix)
	for s.overLimit(c) && len(keys) < maxTrimmedAtOnce {
		group, groupBytes, last := len(keys), 0, uint64(0)
		for more := true; more; k, v = advance(cursor, k) {
			if !bytes.HasPrefix(k, prefix) || seqOf(k) >= it.firstSeq {
				return keys[:group] // the group reaches into what the item adds, or the counters are wrong
			}
			keys = append(keys, k)
			groupBytes += len(k) + len(v)
			last, more = seqOf(k), grouped(v)
		}
		c.events -= min(c.events, uint32(len(keys)-group))
		c.bytes -= min(c.bytes, uint64(groupBytes))
		c.trimmed = last
	}
	return keys
}

// Events reads journal events with after < Seq <= through, in order. It stops
// at about limit events or maxBytes bytes as stored (0 = the journal's own
// limit and 256 KiB), but never splits a group. More comes with at least one
// group, so that every call makes progress. TrimmedThrough over after tells that
// events before the page's first are gone; if retention overtakes the read later,
// the page ends there with More, and the next call tells. Errors:
// THREAD_NOT_FOUND, STORAGE_FAILED.
func (s *Store) Events(threadID string, after, through uint64, limit, maxBytes int) (thread.JournalPage, error) {
	if !validID(threadID) {
		return thread.JournalPage{}, errNotFound()
	}
	if limit <= 0 {
		limit = s.MaxJournalEvents
	}
	if maxBytes <= 0 {
		maxBytes = maxViewBytes
	}
	r := newJournalReader(journalRange{threadID: threadID, after: after, through: through, limit: limit, bytes: maxBytes})
	for !r.done {
		if err := s.view("store.events", r.read); err != nil {
			return thread.JournalPage{}, err
		}
	}
	return r.page, nil
}

// journalRange is what a page is read from.
type journalRange struct {
	threadID       string
	after, through uint64
	limit, bytes   int // what may still be read; under 1 = finish the group
}

// journalReader reads one page in as many transactions as it takes.
type journalReader struct {
	journalRange              // what is left
	asked        journalRange // all
	page         thread.JournalPage
	inGroup      bool // the last event that was read is not the last of its group
	done         bool
}

func newJournalReader(asked journalRange) journalReader {
	return journalReader{journalRange: asked, asked: asked}
}

func (r *journalReader) read(tx *bolt.Tx) error {
	h, err := readHeader(tx, r.threadID)
	if err != nil {
		return err
	}
	if h.trimmed > r.after {
		// Retention has overtaken this read, or was before it.
		r.dropUnfinishedGroup()
		if len(r.page.Events) > 0 {
			r.done, r.page.More = true, true
			return nil
		}
		*r = newJournalReader(r.asked)
	}
	if len(r.page.Events) == 0 {
		r.page.TrimmedThrough = h.trimmed
	}
	var buf [maxIDBytes + 1 + seqBytes]byte
	start := appendSeqKey(buf[:0], r.threadID, r.after)
	prefix := start[:len(start)-seqBytes]
	c := tx.Bucket(bucketJournal).Cursor()
	k, v := c.Seek(start)
	for copied := 0; bytes.HasPrefix(k, prefix); k, v = advance(c, k) {
		seq := seqOf(k)
		if seq <= r.after {
			continue
		}
		if seq > r.through {
			break
		}
		if !r.inGroup && len(r.page.Events) > 0 && (r.limit < 1 || r.bytes < len(v)) {
			r.page.More = true
			break
		}
		if copied > 0 && copied+len(v) > maxViewBytes {
			return nil // go on in a new transaction
		}
		ev, err := decodeEvent(seq, v)
		if err != nil {
			return err
		}
		r.page.Events = append(r.page.Events, ev)
		r.after, r.inGroup = seq, ev.Grouped
		r.limit--
		r.bytes -= len(v)
		copied += len(v)
	}
	r.done = true
	return nil
}

func (r *journalReader) dropUnfinishedGroup() {
	n := len(r.page.Events)
	for n > 0 && r.page.Events[n-1].Grouped {
		n--
	}
	r.page.Events = r.page.Events[:n]
}
