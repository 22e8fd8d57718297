package fault

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestALimitThatIsNoticedLateWasOverslept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(time.Minute)
		for late, want := range map[time.Duration]bool{-time.Hour: false, 0: false, standstill - 1: false, standstill: true, time.Hour: true} {
			if got := Overslept(due.Add(-time.Minute - late)); got != want {
				t.Errorf("%v late: %v", late, got)
			}
		}
	})
}
