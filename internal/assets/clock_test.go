package assets

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/pedelec/pedelec-core/internal/fault"
)

const day = 24 * time.Hour

// set returns a time as time.Now would have it, had the system's clock been set
// meanwhile: the wall clock is another, the monotonic reading is the same. The bits
// are those that package time documents in its source.
func set(now time.Time, by time.Duration) time.Time {
	const secondsBits = 30
	*(*uint64)(unsafe.Pointer(&now)) += uint64(int64(by/time.Second) << secondsBits)
	return now
}

func TestASetClockJumpsAndMeasures(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{day, -day} {
		if then := set(now, by); then.Sub(now) != 0 || then.Round(0).Sub(now.Round(0)) != by {
			t.Errorf("set by %v: %v was measured, and the wall clock moved by %v", by, then.Sub(now), then.Round(0).Sub(now.Round(0)))
		}
	}
}

func TestAClockJumpNeitherEndsNorProlongsATicket(t *testing.T) {
	for name, by := range map[string]time.Duration{"a day ahead": day, "a day back": -day} {
		t.Run(name, func(t *testing.T) {
			const life = 300 * time.Millisecond
			var off atomic.Int64
			var s *scene
			jumping := func(life time.Duration) {
				off.Store(0)
				s = newScene(t, func(c *Config) {
					c.TicketLife = life
					c.Now = func() time.Time { return set(time.Now(), time.Duration(off.Load())) }
				})
			}

			jumping(time.Hour)
			up, down := s.uploadTicket(threadA, "/up", 3), s.downloadTicket(threadA, publicFile(s))
			off.Store(int64(by))
			if got := s.put(up, []byte("new")); got.status != http.StatusCreated {
				t.Errorf("an upload after the jump: %d %s", got.status, got.body)
			}
			if got := s.get(down); got.status != http.StatusOK {
				t.Errorf("a download after the jump: %d %s", got.status, got.body)
			}

			jumping(life)
			up, down = s.uploadTicket(threadA, "/late", 3), s.downloadTicket(threadA, publicFile(s))
			off.Store(int64(by))
			<-time.After(life)
			s.put(up, []byte("new")).expect(t, http.StatusGone, fault.AssetUploadTicketExpired)
			s.get(down).expect(t, http.StatusGone, fault.AssetDownloadTicketExpired)
		})
	}
}
