//go:build unix

package main

import (
	"os"
	"strconv"
)

// placeProgram makes a symbolic link to a program. A new one takes the place of an old one in one step, so agents always find one.
func placeProgram(program, link string) error {
	if there, err := os.Readlink(link); err == nil && there == program {
		return nil
	}
	fresh := link + "." + strconv.Itoa(os.Getpid())
	_ = os.Remove(fresh) // of a process of the same number that crashed here
	if err := os.Symlink(program, fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, link); err != nil {
		_ = os.Remove(fresh)
		return err
	}
	return nil
}
