package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A claim is a folder that creations have made or found on their way and whose own
// outcome is open. What one of them made is removed only when all have failed: each
// relies on it.
type claim struct {
	path string

	// Guarded by the claims' lock.
	users  int           // creations without an outcome
	kept   bool          // one of them succeeded
	made   fs.FileInfo   // the folder, if one of them made it
	marker writtenMarker // likewise
	gone   chan struct{} // closed when it is removed; nil = it is not being removed
}

// claims are all that are open, by path.
type claims struct {
	mu   sync.Mutex
	open map[string]*claim
}

// take claims a path, before anybody looks whether it exists. While a failed
// creation removes what is there, it waits.
func (s *claims) take(path string) *claim {
	for {
		s.mu.Lock()
		c := s.open[path]
		if c == nil {
			c = &claim{path: path}
			if s.open == nil {
				s.open = map[string]*claim{}
			}
			s.open[path] = c
		}
		gone := c.gone
		if gone == nil {
			c.users++
		}
		s.mu.Unlock()
		if gone == nil {
			return c
		}
		<-gone
	}
}

// takeAbove claims the folders above one that exists which other creations have made
// for it, so that the last of all that fail removes them, too.
func (s *claims) takeAbove(path string) (used []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.open[filepath.Dir(path)]; c != nil && c.made != nil && c.gone == nil; c = s.open[filepath.Dir(c.path)] {
		c.users++
		used = append(used, c)
	}
	return used
}

func (s *claims) setMade(c *claim, info fs.FileInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.made = info
}

func (s *claims) setMarker(c *claim, w writtenMarker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.marker = w
}

// keep is the outcome of a creation that succeeded.
func (s *claims) keep(used []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range used {
		c.kept = true
		s.leave(c)
	}
}

// undo is the outcome of one that failed. The deepest folder comes first.
func (s *claims) undo(used []*claim) {
	for _, c := range used {
		if s.abandon(c) {
			c.remove()
			s.forget(c)
		}
	}
}

// abandon reports whether nobody needs the folder any more; it is to be removed then.
func (s *claims) abandon(c *claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users > 1 || c.kept {
		s.leave(c)
		return false
	}
	c.gone = make(chan struct{})
	return true
}

func (s *claims) forget(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(c)
	close(c.gone)
}

// leave takes a user from a claim, under the lock.
func (s *claims) leave(c *claim) {
	if c.users--; c.users == 0 {
		delete(s.open, c.path)
	}
}

// remove takes back what was made, for the one who abandoned the claim. A folder
// that is in use, or not the one that was made, stays.
func (c *claim) remove() {
	c.marker.undo()
	if c.made == nil {
		return
	}
	if info, err := os.Lstat(c.path); err == nil && info.IsDir() && os.SameFile(info, c.made) {
		_ = os.Remove(c.path)
	}
}
