package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// progress shows on a terminal how far a run is.
func (r *crash) progress(n int) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	end := "\r"
	if n+1 == *crashRounds {
		end = "\n"
	}
	fmt.Fprintf(os.Stderr, "round %d of %d, %d kills, %d acknowledged commands, %v%s",
		n+1, *crashRounds, r.kills, r.tally.acks.Load(), time.Since(r.began).Round(time.Second), end)
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
