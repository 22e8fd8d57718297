package store

import (
	"sync"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

type itemKind uint8

const (
	itemCommit itemKind = iota + 1
	itemBlock
	itemDelete
	itemSweep
	itemPut    // into a ledger
	itemRemove // from a ledger
)

// An item is one change, prepared by its caller and checked, so that the
// committer has only puts and deletes to do. Its byte slices are the caller's
// until it was answered.
type item struct {
	kind itemKind
	size int // bytes of keys and values
	done chan error
	err  error // why the item was refused while the rest of its batch went on

	key    []byte // the thread's id; a ledger's key
	value  []byte // the record, a ledger's value
	bucket []byte // of a ledger

	// Of itemCommit.
	create     bool
	live       bool
	instance   string
	revision   uint64
	firstSeq   uint64 // of the first durable event; 0 = none
	latestSeq  uint64
	blockEnd   uint64 // also of itemBlock
	active     string // operation that is never dropped; "" = none
	completed  string // another one
	skills     []byte
	events     []pair
	operations []pair
	drops      [][]byte
	eventBytes uint64

	arena encoder // what the slices above point into
}

type pair struct{ key, value []byte }

// maxPooledArena bounds what an idle item keeps.
const maxPooledArena = 32 << 10

var items = sync.Pool{New: func() any { return &item{done: make(chan error, 1)} }}

func newItem(kind itemKind) *item {
	it := items.Get().(*item)
	it.kind = kind
	return it
}

// free gives an answered item back.
func (it *item) free() {
	arena := it.arena.b[:0]
	if cap(arena) > maxPooledArena {
		arena = nil
	}
	clear(it.events)
	clear(it.operations)
	clear(it.drops)
	*it = item{
		done: it.done, arena: encoder{b: arena},
		events: it.events[:0], operations: it.operations[:0], drops: it.drops[:0],
	}
	items.Put(it)
}

// cut returns what was appended to the arena since the mark. When the arena
// grows later, the slice keeps pointing into the old array, which stays as it
// is.
func (it *item) cut(mark int) []byte {
	b := it.arena.b
	return b[mark:len(b):len(b)]
}

// prepareCommit turns a commit into puts and deletes. The error is INTERNAL:
// the caller broke a rule.
func prepareCommit(c *thread.Commit) (*item, error) {
	if err := checkCommit(c); err != nil {
		return nil, err
	}
	it := newItem(itemCommit)
	r := &c.Record
	it.create, it.live = c.Create, r.Status != thread.Ended
	it.instance, it.revision = r.Instance, r.Revision
	it.latestSeq, it.blockEnd = r.LatestSeq, r.BlockEnd
	if r.Active != nil {
		it.active = r.Active.ID
	}
	if r.LastCompleted != nil {
		it.completed = r.LastCompleted.ID
	}

	it.key = it.putID(r.ID)
	it.value = it.append(func(e *encoder) { e.record(r) })
	if c.Skills != nil {
		it.skills = it.append(func(e *encoder) { e.skills(c.Skills) })
	}
	for i := range c.Events {
		ev := &c.Events[i]
		if !ev.Kind.Durable() {
			continue
		}
		if it.firstSeq == 0 {
			it.firstSeq = ev.Seq
		}
		mark := len(it.arena.b)
		it.arena.b = appendSeqKey(it.arena.b, r.ID, ev.Seq)
		p := pair{key: it.cut(mark)}
		mark = len(it.arena.b)
		it.arena.event(ev)
		p.value = it.cut(mark)
		it.events = append(it.events, p)
		it.eventBytes += uint64(len(p.key) + len(p.value))
	}
	for i := range c.Operations {
		op := &c.Operations[i]
		p := pair{key: it.operationKey(r.ID, op.ID)}
		p.value = it.append(func(e *encoder) { e.operation(op) })
		it.operations = append(it.operations, p)
	}
	for _, id := range c.Drop {
		it.drops = append(it.drops, it.operationKey(r.ID, id))
	}
	it.size = len(it.arena.b)
	if it.size > maxItemBytes {
		it.free()
		return nil, misuse("One change has more than %d bytes.", maxItemBytes)
	}
	return it, nil
}

func (it *item) putID(id string) []byte {
	mark := len(it.arena.b)
	it.arena.b = append(it.arena.b, id...)
	return it.cut(mark)
}

func (it *item) operationKey(threadID, operationID string) []byte {
	mark := len(it.arena.b)
	it.arena.b = appendOperationKey(it.arena.b, threadID, operationID)
	return it.cut(mark)
}

func (it *item) append(write func(*encoder)) []byte {
	mark := len(it.arena.b)
	write(&it.arena)
	return it.cut(mark)
}

// checkCommit refuses what the committer could not put or what would break a
// promise of the journal.
func checkCommit(c *thread.Commit) error {
	if !validID(c.Record.ID) {
		return misuse("A thread id has 1 to %d bytes and no zero byte.", maxIDBytes)
	}
	if c.Skills != nil && !c.Create {
		return misuse("Skills are written when a thread is created, not later.")
	}
	last := uint64(0)
	for i := range c.Events {
		ev := &c.Events[i]
		if !ev.Kind.Durable() {
			continue
		}
		if ev.Seq <= last || ev.Seq > c.Record.LatestSeq {
			return misuse("Event %d follows %d in a commit whose latest is %d.", ev.Seq, last, c.Record.LatestSeq)
		}
		last = ev.Seq
	}
	for i := range c.Operations {
		if id := c.Operations[i].ID; id == "" || len(id) > maxIDBytes {
			return misuse("An operation id has 1 to %d bytes.", maxIDBytes)
		}
	}
	return nil
}

func misuse(format string, args ...any) error {
	err := fault.Newf(fault.Internal, format, args...)
	err.Op = "store.commit"
	return err
}
