package workspace

import (
	"io/fs"
	"regexp"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// A removal is tried again while another program holds a file open, which
// matters on Windows; half a second is what the Desktop app grants too.
const (
	DefaultRemoveRetries = 10
	DefaultRemoveWait    = 50 * time.Millisecond
)

// Modes of what the daemon makes for itself: nobody else needs to look inside.
const (
	privateDirMode  fs.FileMode = 0o700
	privateFileMode fs.FileMode = 0o600
)

// threadIDPattern is the shape of a thread id: t and 16 base-36 characters. It
// guards every name that becomes part of a path.
var threadIDPattern = regexp.MustCompile(`^t[0-9a-z]{16}$`)

// Manager makes, checks and removes workspaces. Make one with [New].
type Manager struct {
	Log           zerolog.Logger
	RemoveRetries int           // attempts after the first one
	RemoveWait    time.Duration // pause between attempts

	root   string // absolute and lexically clean
	claims claims // of creations of custom folders
}

// New returns a Manager whose managed workspaces lie directly under root, an
// absolute path that need not exist yet.
func New(root string) *Manager {
	return &Manager{
		Log:           zerolog.Nop(),
		RemoveRetries: DefaultRemoveRetries,
		RemoveWait:    DefaultRemoveWait,
		root:          cleanPath(root),
	}
}

func createFailed(path string, err error) *fault.Error {
	return fault.Wrap(fault.WorkspaceCreateFailed, "workspace.create", err, "The workspace could not be made.").
		With("path", showPath(path)).With("error", err.Error())
}
