package workspace

import "os"

// syncDir does nothing: Windows has no way to force a directory to disk, NTFS
// journals its entries.
func syncDir(*os.File) error { return nil }
