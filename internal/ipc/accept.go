package ipc

import (
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"
)

// acceptPause is how long accepting rests when the system has no more file
// descriptors; a tight loop would take the processor from those who free some.
const acceptPause = 50 * time.Millisecond

// acceptReport is how often it is said that connections cannot be accepted: a
// shortage lasts, and 20 lines a second would hide its cause.
const acceptReport = 10 * time.Second

// canAcceptLater reports whether accepting can succeed after an error of it.
func canAcceptLater(err error) bool {
	return slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) })
}

// acceptFailures says of one listener that accepting fails, but not each time.
type acceptFailures struct {
	log    zerolog.Logger
	said   time.Time // zero = not yet
	unsaid int       // failures since then
}

func (f *acceptFailures) add(err error, now time.Time) {
	f.unsaid++
	if !f.said.IsZero() && now.Sub(f.said) < acceptReport {
		return
	}
	f.log.Warn().Err(err).Int("failures", f.unsaid).Msg("connections cannot be accepted now; trying again")
	f.said, f.unsaid = now, 0
}
