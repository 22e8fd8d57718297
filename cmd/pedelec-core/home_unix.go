//go:build unix

package main

import (
	"errors"
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

// syncFolder forces the entries of a folder to disk. Some file systems, such as
// network and FUSE ones, do not offer it, and a folder may be one that cannot be
// read.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
