package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/proc"
	"github.com/pedelec/pedelec-core/internal/settings"
)

// pickLimit is how long the user may take to choose a folder.
const pickLimit = 10 * time.Minute

// maxPickedPath bounds what is taken of a picker's output.
const maxPickedPath = 32 << 10

// desktopVariables are what a program with windows needs besides what every child
// gets: where the screen and the session bus are, and how windows look.
var desktopVariables = []string{
	"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS",
	"DESKTOP_SESSION", "GDK_*", "GTK_*", "QT_*", "KDE_*",
}

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
	out, err := runPicker(ctx, command)
	if err != nil {
		return "", fault.Wrap(fault.DirectoryPickerFailed, "picker.run", err,
			fmt.Sprintf("The folder picker %s failed (%v).", filepath.Base(command[0]), withoutPath(err)))
	}
	if len(out) > maxPickedPath || strings.ContainsRune(out, 0) {
		return "", fault.New(fault.DirectoryPickerFailed, "The folder picker printed something that is no path.")
	}
	return strings.TrimRight(out, "\r\n"), nil
}

// runPicker returns what the program prints, and no more of it than shows that it
// is no path.
func runPicker(ctx context.Context, command []string) (string, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return "", err
	}
	return proc.Output(ctx, proc.Command{
		Path: path, Args: command[1:],
		Env:   proc.Environment(os.Environ(), desktopVariables, nil),
		Limit: maxPickedPath + 1,
	})
}

// withoutPath returns the cause of an error that names the program by its path,
// which is not for pages.
func withoutPath(err error) error {
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		return withoutPath(lookup.Err)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
