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

// Points lists the failpoints of this package.
var Points = []string{
	PointBeforeCommit, PointAfterCommit, PointBeforeReply, PointBeforeProviderWrite,
	PointAfterProviderWrite, PointAfterCreate, PointLoad,
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
