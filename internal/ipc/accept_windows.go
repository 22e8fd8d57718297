package ipc

import "golang.org/x/sys/windows"

// passing are the errors after which accepting can succeed: the client went away
// in between, or something ran out that others give back.
var passing = []error{
	windows.WSAECONNABORTED, windows.WSAECONNRESET,
	windows.WSAEMFILE, windows.WSAENOBUFS, windows.ERROR_NOT_ENOUGH_MEMORY,
}
