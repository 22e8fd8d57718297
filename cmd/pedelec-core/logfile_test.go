package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// smallDisk is a file on a disk with so much room.
type smallDisk struct {
	bytes.Buffer
	room int
}

func (d *smallDisk) Write(p []byte) (int, error) {
	n := min(d.room, len(p))
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func TestALogOnAFullDiskTellsStderrOnceAndTheFileWhenThereIsRoom(t *testing.T) {
	disk := &smallDisk{room: 70}
	var stderr bytes.Buffer
	log := zerolog.New(&steadyFile{file: disk, stderr: &stderr})
	for range 10 {
		log.Info().Msg("a line that takes some room")
	}
	disk.room = 1 << 20
	log.Info().Msg("with room again")

	if n := strings.Count(stderr.String(), "\n"); n != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("stderr has %d lines: %s", n, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(disk.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("the file has %d lines:\n%s", len(lines), disk.String())
	}
	if !strings.Contains(lines[2], `"lines":9`) || !strings.Contains(lines[2], `"level":"error"`) {
		t.Errorf("the file tells of its gap with %s", lines[2])
	}
	if !strings.Contains(lines[3], "with room again") {
		t.Errorf("the last line is %s", lines[3])
	}
}
