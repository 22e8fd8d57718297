package settings

// syncDir does nothing: Windows has no way to force a directory to disk, NTFS
// journals its entries.
func syncDir(string) error { return nil }
