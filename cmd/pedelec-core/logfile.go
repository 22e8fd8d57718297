package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/rs/zerolog"
)

// steadyFile is the log file as the logger sees it: a write never fails. While the
// file cannot be written, as on a full disk, lines are dropped; stderr is told once,
// and the file once it can be written again.
type steadyFile struct {
	file   io.Writer
	stderr io.Writer // nil = there is nobody to tell

	mu   sync.Mutex
	lost int  // lines that were dropped since the file could be written
	torn bool // the file ends within a line
}

func (f *steadyFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost > 0 && !f.makeUp() || !f.put(line) {
		f.lost++
	}
	return len(line), nil
}

// makeUp tells the file how many lines it lacks.
func (f *steadyFile) makeUp() bool {
	var told bytes.Buffer
	log := zerolog.New(&told).With().Timestamp().Logger()
	log.Error().Int("lines", f.lost).Msg("the log could not be written for a while; lines are missing here")
	if !f.put(told.Bytes()) {
		return false
	}
	f.lost = 0
	return true
}

func (f *steadyFile) put(line []byte) bool {
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.file.Write(line)
	if err == nil {
		f.torn = false
		return true
	}
	f.torn = f.torn || n > 0
	if f.lost == 0 && f.stderr != nil {
		_, _ = fmt.Fprintf(f.stderr, "The log file cannot be written, so lines will be missing in it: %v\n", err)
	}
	return false
}
