package lifecycle

import (
	"slices"
	"sort"
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// memStore is a Store in memory that can be told to fail. The real one is used
// by the end-to-end tests.
type memStore struct {
	self string

	mu      sync.Mutex
	threads map[string]*memThread
	fail    error // what commits answer; nil = they work
	lie     error // what the next commit answers although it works
	commits int
	loads   int

	unreadable []string // threads whose page is damaged
	unwritable []string // likewise
}

type memThread struct {
	loaded  thread.Loaded
	ops     map[string]thread.Operation
	events  []thread.Event
	trimmed uint64
	block   uint64
}

func newMemStore(self string) *memStore {
	return &memStore{self: self, threads: map[string]*memThread{}}
}

func (m *memStore) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memStore) setLie(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lie = err
}

func (m *memStore) Commit(c thread.Commit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if slices.Contains(m.unwritable, c.Record.ID) {
		return fault.New(fault.StorageFailed, "")
	}
	m.commits++
	t := m.threads[c.Record.ID]
	if t != nil && t.loaded.Record.Revision == c.Record.Revision && t.loaded.Record.Instance == c.Record.Instance {
		return nil // the same once more
	}
	lie := m.lie
	m.lie = nil
	if t == nil {
		t = &memThread{ops: map[string]thread.Operation{}}
		t.loaded.Skills = c.Skills
		m.threads[c.Record.ID] = t
	}
	t.loaded.Record = c.Record
	if c.Record.BlockEnd == 0 || c.Record.BlockEnd >= t.block {
		t.block = 0
	}
	for _, ev := range c.Events {
		if ev.Kind.Durable() {
			t.events = append(t.events, ev)
		}
	}
	for _, op := range c.Operations {
		if _, known := t.ops[op.ID]; !known {
			t.loaded.Operations = append(slices.Clone(t.loaded.Operations), thread.Admitted{ID: op.ID, Kind: op.Kind, Hash: op.Hash, AlreadyPrepared: op.AlreadyPrepared})
		}
		t.ops[op.ID] = op
	}
	for _, id := range c.Drop {
		delete(t.ops, id)
	}
	return lie
}

func (m *memStore) ReserveBlock(id string, end uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.threads[id].block = max(m.threads[id].block, end)
	return nil
}

func (m *memStore) Load(id string) (thread.Loaded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	if slices.Contains(m.unreadable, id) {
		return thread.Loaded{}, fault.New(fault.StorageFailed, "")
	}
	t := m.threads[id]
	if t == nil {
		return thread.Loaded{}, fault.New(fault.ThreadNotFound, "")
	}
	l := t.loaded
	l.Record.BlockEnd = max(l.Record.BlockEnd, t.block)
	return l, nil
}

func (m *memStore) Events(id string, after, through uint64, limit, _ int) (thread.JournalPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.threads[id]
	if t == nil {
		return thread.JournalPage{}, fault.New(fault.ThreadNotFound, "")
	}
	page := thread.JournalPage{TrimmedThrough: t.trimmed}
	for _, ev := range t.events {
		if ev.Seq <= after || ev.Seq > through || ev.Seq <= t.trimmed {
			continue
		}
		if n := len(page.Events); n >= limit && !page.Events[n-1].Grouped {
			page.More = true
			break
		}
		page.Events = append(page.Events, ev)
	}
	return page, nil
}

func (m *memStore) Operation(id, op string) (thread.Operation, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.threads[id].ops[op]
	return o, ok, nil
}

func (m *memStore) List(q thread.ListQuery) (thread.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var p thread.Page
	for id, t := range m.threads {
		r := &t.loaded.Record
		if q.Owner == "" || q.Owner == r.Owner {
			p.Threads = append(p.Threads, thread.Summary{ThreadID: id, Status: r.SettledStatus(m.self), UpdatedAt: r.UpdatedAt})
		}
	}
	sort.Slice(p.Threads, func(i, j int) bool { return p.Threads[i].ThreadID < p.Threads[j].ThreadID })
	return p, nil
}

func (m *memStore) Unsettled(after string, limit int) ([]string, error) {
	return m.that(after, limit, func(r *thread.Record) bool { return r.NeedsSettling(m.self) })
}

func (m *memStore) EndWithDaemon(after string, limit int) ([]string, error) {
	return m.that(after, limit, (*thread.Record).EndsWithDaemon)
}

func (m *memStore) that(after string, limit int, match func(*thread.Record) bool) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []string
	for id, t := range m.threads {
		if id > after && match(&t.loaded.Record) {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	return ids[:min(limit, len(ids))], nil
}

func (m *memStore) Delete(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	delete(m.threads, id)
	return nil
}

// UsedBytes counts a kilobyte a thread.
func (m *memStore) UsedBytes() (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.threads)) << 10, nil
}

func (m *memStore) EndedOldestFirst(limit int) ([]thread.Summary, error) {
	p, err := m.List(thread.ListQuery{})
	ended := slices.DeleteFunc(p.Threads, func(t thread.Summary) bool { return t.Status != thread.Ended })
	slices.SortFunc(ended, func(a, b thread.Summary) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	return ended[:min(limit, len(ended))], err
}

func (m *memStore) record(id string) thread.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.threads[id].loaded.Record
}

func (m *memStore) operation(id, op string) thread.Operation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.threads[id].ops[op]
}

func (m *memStore) loadCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loads
}
