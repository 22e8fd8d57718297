package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// progressEvery is how often a run says how far it is.
const progressEvery = 10 * time.Second

// progress says how far a run is, if that was not said lately.
func (r *crash) progress(n int) {
	if time.Since(r.told) < progressEvery {
		return
	}
	r.told = time.Now()
	r.Logf("round %d of %d after %v: %d kills, %d acknowledged commands",
		n+1, *crashRounds, time.Since(r.began).Round(time.Second), r.kills, r.tally.acks.Load())
}

// roundsForSuccess is how many rounds cannot all be cut short before a turn has
// succeeded, unless something is wrong. Fewer may be, by chance; the turn behind
// the last round must succeed in any case.
const roundsForSuccess = 20

// summary tells what a run has shown with failpoints of some moments, and fails it
// if that is nothing.
func (r *crash) summary(moments ...moment) {
	ends := r.tally.outcomes()
	if ends[""] == 0 && *crashRounds >= roundsForSuccess {
		r.Error("not one turn succeeded under all that load, so it shows nothing")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nrounds:             %d in %v\n", *crashRounds, time.Since(r.began).Round(time.Second))
	fmt.Fprintf(&b, "kills:              %d\n", r.kills)
	fmt.Fprintf(&b, "acknowledged:       %d commands, %d answers of tools, %d uploads\n", r.tally.acks.Load(), r.tally.answers.Load(), r.tally.uploads.Load())
	fmt.Fprintf(&b, "asked again:        %d commands whose answer was lost\n", r.tally.repeated.Load())
	fmt.Fprintf(&b, "events heard:       %d\n", r.heard.Load())
	fmt.Fprintf(&b, "turns of agents:    %d, none handed over twice\n", len(r.notes.turns))
	fmt.Fprintf(&b, "operations ended:   %d well\n", ends[""])
	for _, code := range slices.Sorted(maps.Keys(ends)) {
		if code != "" {
			fmt.Fprintf(&b, "    %-28s %4d\n", code, ends[code])
		}
	}
	b.WriteString(r.points.report(moments...))
	r.Log(b.String())
}
