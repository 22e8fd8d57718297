package proc

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// A Ledger remembers, across a crash of the daemon, which runtimes it started.
// Put returns once the value is durable.
type Ledger interface {
	Put(id string, value []byte) error
	Delete(id string) error
	All() (map[string][]byte, error)
}

// Entry is what the ledger holds of one runtime. PID and StartTime are zero
// until the process exists.
type Entry struct {
	RuntimeID string `json:"-"`                  // the ledger's key
	Provider  string `json:"provider"`           // who it works for, for logs
	Instance  string `json:"instance"`           // the daemon instance that started it
	BootID    string `json:"bootId,omitempty"`   // the boot in which PID means something
	PID       int    `json:"pid,omitzero"`       // leader of the runtime's group
	StartTime uint64 `json:"startTime,omitzero"` // of PID, in the system's own unit; tells a recycled pid
}

// entryVersion is the first byte of a stored entry.
const entryVersion = 1

func encodeEntry(e Entry) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode ledger entry: %w", err)
	}
	return append([]byte{entryVersion}, body...), nil
}

func decodeEntry(id string, value []byte) (Entry, error) {
	if len(value) == 0 || value[0] != entryVersion {
		return Entry{}, fmt.Errorf("ledger entry %s: unknown version", id)
	}
	e := Entry{RuntimeID: id}
	if err := json.Unmarshal(value[1:], &e); err != nil {
		return Entry{}, fmt.Errorf("ledger entry %s: %w", id, err)
	}
	return e, nil
}
