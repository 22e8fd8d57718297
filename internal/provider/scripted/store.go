package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// store keeps the sessions: a file each, a line for each record. A line is one
// write, so a process that dies leaves whole lines and at most one torn one,
// which reading skips.
type store struct {
	dir string
}

type recordKind string

const (
	recordOpen    recordKind = "open"
	recordModel   recordKind = "model"
	recordUser    recordKind = "user"
	recordAgent   recordKind = "agent"
	recordPrepare recordKind = "prepare"
)

type record struct {
	Kind        recordKind `json:"kind"`
	Cwd         string     `json:"cwd,omitzero"`
	Model       string     `json:"model,omitzero"`
	Text        string     `json:"text,omitzero"`
	Instructed  bool       `json:"instructed,omitzero"`
	Preparation bool       `json:"preparation,omitzero"`
	PID         int        `json:"pid,omitzero"` // of the process that took the user's text
	Tools       []hostTool `json:"tools,omitzero"`
}

// maxHistory is how much of one text is kept for a replay.
const maxHistory = 64 << 10

const storeSuffix = ".jsonl"

// sessionIDPattern guards the names of files.
var sessionIDPattern = regexp.MustCompile(`^ses_[a-z0-9]{8,64}$`)

// openStore makes the folder if need be. With no folder named, it is one of the
// user's own below the temporary folder, where others could have put something
// in its place.
func openStore(dir string) (*store, error) {
	if dir != "" {
		return &store{dir}, os.MkdirAll(dir, 0o700)
	}
	dir = filepath.Join(os.TempDir(), "pedelec-scripted-"+userName())
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || !ownedByUs(info) {
		return nil, fmt.Errorf("%s is not a folder of ours", dir)
	}
	s := &store{dir}
	s.dropOld(time.Now().Add(-keepSessions))
	return s, nil
}

// keepSessions is how long a session in the temporary folder is kept after its
// last turn; nobody else clears up there.
const keepSessions = 7 * 24 * time.Hour

// dropOld removes sessions that were not touched since a time, best effort.
func (s *store) dropOld(before time.Time) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), storeSuffix)
		if info, err := e.Info(); ok && err == nil && info.ModTime().Before(before) {
			_ = s.forget(id)
		}
	}
}

func (s *store) path(id string) (string, error) {
	if !sessionIDPattern.MatchString(id) {
		return "", fs.ErrNotExist
	}
	return filepath.Join(s.dir, id+storeSuffix), nil
}

// append adds a record. Only an opening record makes the file, so that a
// session that was forgotten stays so.
func (s *store) append(id string, r record) error {
	path, err := s.path(id)
	if err != nil {
		return err
	}
	if len(r.Text) > maxHistory {
		r.Text = strings.ToValidUTF8(r.Text[:maxHistory], "")
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_APPEND
	if r.Kind == recordOpen {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	// The newline in front ends a line that a dying process left torn.
	if _, err := f.Write(append(append([]byte{'\n'}, line...), '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (s *store) read(id string) ([]record, error) {
	path, err := s.path(id)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var records []record
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		var r record
		if len(line) > 0 && json.Unmarshal(line, &r) == nil {
			records = append(records, r)
		}
	}
	return records, nil
}

func (s *store) forget(id string) error {
	path, err := s.path(id)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

type storedSession struct {
	id        string
	cwd       string
	updatedAt time.Time
}

func (s *store) list() ([]storedSession, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []storedSession
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), storeSuffix)
		if !ok {
			continue
		}
		records, err := s.read(id)
		if err != nil || len(records) == 0 {
			continue // another process forgot it meanwhile
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		all = append(all, storedSession{id, restore(id, records).cwd, info.ModTime()})
	}
	return all, nil
}
