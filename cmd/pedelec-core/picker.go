package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/settings"
)

// pickLimit is how long the user may take to choose a folder.
const pickLimit = 10 * time.Minute

// maxPickedPath bounds what is taken of a picker's output.
const maxPickedPath = 32 << 10

// picker asks the user for a folder by running the program that the settings
// name. The program prints the path, or nothing when the user cancels.
type picker struct{ file *settings.File }

func (p picker) Pick(ctx context.Context) (string, error) {
	command := p.file.Current().PickerCommand
	if len(command) == 0 {
		return "", fault.New(fault.DirectoryPickerFailed, "No folder picker is configured; set pickerCommand in settings.json.")
	}
	ctx, cancel := context.WithTimeout(ctx, pickLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fault.Wrap(fault.DirectoryPickerFailed, "picker.run", err, fmt.Sprintf("The folder picker %s failed.", command[0]))
	}
	if len(out) > maxPickedPath || bytes.ContainsRune(out, 0) {
		return "", fault.New(fault.DirectoryPickerFailed, "The folder picker printed something that is no path.")
	}
	return strings.TrimRight(string(out), "\r\n"), nil
}
