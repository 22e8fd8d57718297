package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// placeProgram copies a program, since links need a privilege here. A copy that
// runs cannot be replaced, but it can be renamed.
func placeProgram(program, place string) error {
	removeOld(place)
	if isCopy(program, place) {
		return nil
	}
	fresh := place + ".new" + strconv.Itoa(os.Getpid())
	if err := copyProgram(program, fresh); err != nil {
		_ = os.Remove(fresh)
		return err
	}
	if os.Rename(fresh, place) == nil {
		return nil
	}
	if err := os.Rename(place, place+".old"+strconv.FormatInt(time.Now().UnixNano(), 36)); err != nil {
		_ = os.Remove(fresh)
		return err
	}
	return os.Rename(fresh, place)
}

// removeOld removes copies that were renamed while they ran.
func removeOld(place string) {
	old, _ := filepath.Glob(place + ".old*") // the pattern is well-formed
	for _, path := range old {
		_ = os.Remove(path) // it may run still
	}
}

// isCopy compares size and time: copyProgram gives a copy the time of what it
// was made from.
func isCopy(program, place string) bool {
	from, err := os.Stat(program)
	if err != nil {
		return false
	}
	to, err := os.Lstat(place)
	return err == nil && to.Mode().IsRegular() && from.Size() == to.Size() && from.ModTime().Equal(to.ModTime())
}

func copyProgram(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
