package assets

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
	"github.com/pedelec/pedelec-core/internal/workspace"
)

const (
	// maxListBytes is how much a list may take on the wire: the 1,048,000 bytes
	// of a line, less its envelope.
	maxListBytes = 1_040_000
	// entryFrame is what an entry takes besides its values.
	entryFrame = len(`{"name":,"path":,"sizeBytes":,"modifiedAt":},`)
	// maxKept is more entries than ever fit; only the newest are remembered of a
	// larger folder.
	maxKept = 20_000
)

// Asset describes a file.
type Asset struct {
	Name       string
	Path       string // public path
	SizeBytes  int64
	ModifiedAt time.Time
}

// Listing is the files of a workspace's assets folder, newest first.
type Listing struct {
	Assets    []Asset
	Truncated bool // older ones are left out, since all would not fit one message
}

// List returns the regular files of all levels: newest first, to the
// millisecond, then by name and by path. Links, and what has a name of the
// daemon's own at any level, are not among them. Errors: those of
// [Threads].Thread; THREAD_ENDED details {threadId}; ASSET_LIST_FAILED details
// {path} of the folder that cannot be read.
func (m *Manager) List(ctx context.Context, c thread.Caller, threadID string) (Listing, error) {
	v, err := m.visit(ctx, c, threadID)
	if err != nil {
		return Listing{}, err
	}
	defer v.leave()
	if err := v.openNow(); err != nil {
		return Listing{}, err
	}
	root, err := workspace.OpenAssets(v.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return Listing{}, nil
	}
	if err != nil {
		return Listing{}, listFailed("/", err)
	}
	defer root.Close()
	l := lister{ctx: ctx}
	if err := l.walk(root, ""); err != nil {
		return Listing{}, err
	}
	listing := l.listing()
	if listing.Truncated {
		m.cfg.Log.Info().Str("threadId", threadID).Int("listed", len(listing.Assets)).Int("files", l.seen).
			Msg("The list of assets does not fit one message; the oldest are left out.")
	}
	return listing, nil
}

func listFailed(path string, err error) error {
	return fault.Wrap(fault.AssetListFailed, "assets.list", err, "").With("path", path)
}

// lister gathers files.
type lister struct {
	ctx    context.Context
	assets []Asset
	seen   int
}

// walk gathers what is in a folder whose public path is prefix, "" for the root.
func (l *lister) walk(dir *workspace.Dir, prefix string) error {
	if err := l.ctx.Err(); err != nil {
		return listFailed(cmp.Or(prefix, "/"), err)
	}
	var folders []string
	err := dir.Entries(func(info fs.FileInfo) bool {
		switch {
		case !l.listable(prefix, info.Name()):
		case info.IsDir():
			folders = append(folders, info.Name())
		case info.Mode().IsRegular():
			l.add(prefix, info)
		}
		return true
	})
	if err != nil {
		return listFailed(cmp.Or(prefix, "/"), err)
	}
	for _, name := range folders {
		if err := l.descend(dir, prefix, name); err != nil {
			return err
		}
	}
	return nil
}

// listable reports whether an entry's path keeps to the rule for public paths;
// a client refuses a list with one that does not.
func (l *lister) listable(prefix, name string) bool {
	if strings.HasPrefix(name, reservedPrefix) || len(prefix)+1+len(name) > MaxPathBytes {
		return false
	}
	_, err := splitPath("/"+name, forReading)
	return err == nil
}

func (l *lister) add(prefix string, info fs.FileInfo) {
	name := info.Name()
	l.seen++
	l.assets = append(l.assets, Asset{name, prefix + "/" + name, info.Size(), notBeforeEpoch(info.ModTime())})
	if len(l.assets) >= 2*maxKept {
		slices.SortFunc(l.assets, newestFirst)
		l.assets = l.assets[:maxKept]
	}
}

func (l *lister) descend(dir *workspace.Dir, prefix, name string) error {
	sub, err := dir.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, workspace.ErrNotDirectory) || errors.Is(err, workspace.ErrSwapped) {
		return nil // it has vanished or become something else meanwhile
	}
	path := prefix + "/" + name
	if err != nil {
		return listFailed(path, err)
	}
	defer sub.Close()
	return l.walk(sub, path)
}

// listing returns the newest files that fit.
func (l *lister) listing() Listing {
	slices.SortFunc(l.assets, newestFirst)
	left := maxListBytes
	for i, a := range l.assets {
		left -= a.encodedLen()
		if left < 0 {
			return Listing{Assets: l.assets[:i], Truncated: true}
		}
	}
	return Listing{Assets: l.assets, Truncated: l.seen > len(l.assets)}
}

// encodedLen returns how many bytes an entry takes in a list.
func (a Asset) encodedLen() int {
	return entryFrame + quotedLen(a.Name) + quotedLen(a.Path) + decimalLen(a.SizeBytes) + decimalLen(a.ModifiedAt.UnixMilli())
}

func decimalLen(n int64) int {
	var digits [20]byte
	return len(strconv.AppendInt(digits[:0], n, 10))
}

// quotedLen returns how long a name is in JSON: control characters and
// backslashes are not listed, so only quotes grow.
func quotedLen(s string) int { return 2 + len(s) + strings.Count(s, `"`) }

func newestFirst(a, b Asset) int {
	return cmp.Or(
		cmp.Compare(b.ModifiedAt.UnixMilli(), a.ModifiedAt.UnixMilli()),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Path, b.Path),
	)
}
