package lifecycle

import (
	"fmt"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Failpoints of this package, in the order in which an input meets them.
const (
	PointBeforeCommit        = "lifecycle.commit.before"
	PointAfterCommit         = "lifecycle.commit.after"
	PointBeforeReply         = "lifecycle.reply.before"
	PointBeforeProviderWrite = "lifecycle.provider.before"
	PointAfterProviderWrite  = "lifecycle.provider.after"
	PointAfterCreate         = "lifecycle.create.after"
	PointLoad                = "lifecycle.load"
)

// Failpoints of what happens to a thread that an earlier daemon left, in the same
// order.
const (
	PointBeforeSweep  = "lifecycle.sweep.before"  // nobody asked for it, and its time has come
	PointUnstaged     = "lifecycle.load.unstaged" // the rest of an upload is removed, its name is in the record
	PointBeforeSettle = "lifecycle.settle.before" // it is loaded, and readers wait
	PointAfterSettle  = "lifecycle.settle.after"  // it is settled, and readers still wait
)

// Points lists the failpoints of this package.
var Points = []string{
	PointBeforeCommit, PointAfterCommit, PointBeforeReply, PointBeforeProviderWrite,
	PointAfterProviderWrite, PointAfterCreate, PointLoad,
	PointBeforeSweep, PointUnstaged, PointBeforeSettle, PointAfterSettle,
}

// Keys of log lines.
const (
	logThread = "thread"
	logInput  = "input"
)

// inputName returns the type of an input for the log, never its contents.
func inputName(in thread.Input) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", in), "thread.")
}

func leaving() *fault.Error {
	return fault.New(fault.CoreRuntimeUnavailable, "The daemon is shutting down.")
}
