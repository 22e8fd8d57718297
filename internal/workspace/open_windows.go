package workspace

import "path/filepath"

// openNonblock is nothing: Windows has no FIFOs in its file systems.
const openNonblock = 0

// localName refuses names that reach devices, streams or other folders.
func localName(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name
}
