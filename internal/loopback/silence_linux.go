package loopback

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundSilence makes the system give up connections of a listener whose peers do
// not confirm what they were sent. Keep-alive says nothing about these, and without
// a bound the system repeats itself for a quarter of an hour. A peer that confirms
// and has no room for more counts, too, as soon as something waits for it here: the
// system makes no difference. Accepted connections inherit it.
func boundSilence(listener syscall.RawConn, limit time.Duration) error {
	var failed error
	err := listener.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
