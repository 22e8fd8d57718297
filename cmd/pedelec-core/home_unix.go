//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// modesTold says that permission bits keep other users out on this system.
const modesTold = true

// checkOwner refuses a folder of another user, who could read and replace what
// is in it.
func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("the home folder %s belongs to user %d, not to you (user %d); choose another one with --home DIR", path, stat.Uid, os.Geteuid())
}
