//go:build !windows

package ipc

import "syscall"

// passing are the errors after which accepting can succeed: the client went away
// in between, or something ran out that others give back.
var passing = []error{
	syscall.ECONNABORTED,
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
}
