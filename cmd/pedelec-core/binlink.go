package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// binFolder is the folder inside the home folder that agents have on their PATH.
const binFolder = "bin"

// linkCLI makes <home>/bin/pedelec-cli lead to this program, whatever stood there.
func linkCLI(home string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of this program is unknown: %w", err)
	}
	dir := filepath.Join(home, binFolder)
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	return placeProgram(program, dir)
}
