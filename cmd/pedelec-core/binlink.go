package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// binFolder is the folder inside the home folder that agents have on their PATH.
const binFolder = "bin"

// cliPath returns the place of pedelec-cli in a home folder.
func cliPath(home string) string {
	name := cliName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(home, binFolder, name)
}

// linkCLI makes <home>/bin/pedelec-cli lead to this program, whatever stood there.
func linkCLI(home string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of this program is unknown: %w", err)
	}
	place := cliPath(home)
	if err := os.MkdirAll(filepath.Dir(place), folderMode); err != nil {
		return err
	}
	return placeProgram(program, place)
}
