package provider

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/pedelec/pedelec-core/internal/thread"
)

// Policy answers an agent's questions for permission: edits inside the workspace
// and our own command, nothing else, unless the user's settings say more. It is no
// sandbox: an agent that does not ask is not held back.
type Policy struct {
	Permission thread.Permission
	Workspace  string // canonical path
	BinDir     string // holds pedelec-cli; "" = none
}

// Question is what an agent asks for.
type Question struct {
	Reads    bool       // the agent calls it reading or searching
	Shell    bool       // it is, or may be, the run of a command
	Commands []string   // shell text; all must be allowed
	Argvs    [][]string // commands as words; all must be allowed
	Paths    []string   // every path that it names
}

// Allows reports whether the agent may do it, this once.
func (p Policy) Allows(q Question) bool {
	switch {
	case p.Permission == thread.PermitFull:
		return true
	case q.Shell:
		return p.allowsCommands(q)
	case len(q.Commands) > 0 || len(q.Argvs) > 0: // of a tool that may do something else besides
		return p.allowsCommands(q) && (len(q.Paths) == 0 || p.allowsPaths(q))
	}
	return len(q.Paths) > 0 && p.allowsPaths(q)
}

func (p Policy) allowsPaths(q Question) bool {
	if p.Permission == thread.PermitReadOnly && !q.Reads {
		return false
	}
	return !slices.ContainsFunc(q.Paths, func(path string) bool { return !p.contains(path) })
}

func (p Policy) allowsCommands(q Question) bool {
	argvs := slices.Clone(q.Argvs)
	for _, command := range q.Commands {
		words, ok := simpleCommand(command)
		if !ok {
			return false
		}
		argvs = append(argvs, words)
	}
	return len(argvs) > 0 && !slices.ContainsFunc(argvs, func(argv []string) bool {
		return len(argv) == 0 || !isCLI(argv[0], p.BinDir)
	})
}

// contains reports whether a path, with every symbolic link resolved, lies in the
// workspace. A path that the agent might read in another way, or that cannot be
// resolved, does not.
func (p Policy) contains(path string) bool {
	if path == "" || path != trim(path) || strings.HasPrefix(path, "~") || isURL.MatchString(path) || strings.ContainsRune(path, 0) {
		return false
	}
	if !standsAlone(path) {
		path = p.Workspace + string(filepath.Separator) + path // not Join: it would resolve ".." before links
	}
	if !filepath.IsAbs(path) {
		return false // of another folder or drive of Windows
	}
	root, err := filepath.EvalSymlinks(p.Workspace)
	if err != nil {
		return false
	}
	// The system takes a step up behind links, many agents before it looks at them.
	for _, read := range []string{path, filepath.Clean(path)} {
		real, ok := resolve(read)
		if !ok {
			return false
		}
		if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
			return false
		}
	}
	return true
}

// isURL matches what an agent may take for an address: file:/etc/passwd is one, too.
var isURL = regexp.MustCompile(`://|^(?i:file):`)

// standsAlone reports whether the folder does not matter in which a path is used. On
// Windows there are such that are not absolute.
func standsAlone(path string) bool {
	return filepath.IsAbs(path) || path != "" && os.IsPathSeparator(path[0]) || filepath.VolumeName(path) != ""
}

// trim takes away the white space around a path, as some agents do before they use it.
func trim(path string) string {
	return strings.TrimFunc(path, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
}

// resolve follows every link of a path whose last parts may not exist yet.
func resolve(path string) (string, bool) {
	var missing []string
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			slices.Reverse(missing)
			return filepath.Join(append([]string{real}, missing...)...), true
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) && !errors.Is(err, syscall.ENOTDIR) {
			return "", false // a link to nowhere: writing through it leaves the workspace
		}
		cut := strings.LastIndexFunc(path, func(r rune) bool { return os.IsPathSeparator(uint8(r)) })
		if cut < 0 {
			return "", false
		}
		last := path[cut+1:]
		if last == ".." {
			return "", false
		}
		if last != "" && last != "." {
			missing = append(missing, last)
		}
		path = path[:cut]
		if path == "" || path == filepath.VolumeName(path) {
			path += string(filepath.Separator)
		}
	}
}
