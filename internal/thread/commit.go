package thread

import (
	"github.com/pedelec/pedelec-core/internal/tool"
)

// Commit is everything about one thread that must become durable at once.
type Commit struct {
	Create     bool         // the record must not exist yet
	Record     Record       // the record as it shall be
	Skills     *tool.Skills // stored once, with Create
	Events     []Event      // appended to the journal; deltas are skipped
	Operations []Operation  // put, by id
	Drop       []string     // ids of operations to forget
}

// Loaded is everything that is read of a thread when it is loaded.
type Loaded struct {
	Record     Record
	Skills     *tool.Skills // nil = created without
	Operations []Admitted   // at most MaxOperations, oldest first
}

// JournalPage is a piece of the journal.
type JournalPage struct {
	Events         []Event // in order of Seq
	TrimmedThrough uint64  // events up to this number were removed by retention; 0 = none
	More           bool    // the limit was reached before the end of the range
}
