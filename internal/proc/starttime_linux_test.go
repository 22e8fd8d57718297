package proc

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzParseStartTime reads process statuses whose program has any name at all, which
// its user chooses.
func FuzzParseStartTime(f *testing.F) {
	f.Add("agent", uint64(12345), "S 1 2 3")
	f.Add("a) S (b", uint64(0), "")
	f.Add("x y\n)))", ^uint64(0), "Z 0")
	f.Fuzz(func(t *testing.T, name string, start uint64, other string) {
		fields := strings.Repeat("7 ", 22-3)
		stat := fmt.Sprintf("42 (%s) %s%d 0 0\n", name, fields, start)
		if got, err := parseStartTime([]byte(stat)); err != nil || got != start {
			t.Fatalf("%q started at %d, %v", stat, got, err)
		}
		if long := stat + strings.Repeat(" 0", 40); lacksEnviron([]byte(long)) != lacksEnviron([]byte(strings.Replace(long, name, "agent", 1))) {
			t.Fatalf("whether there is a place for an environment depends on the name %q", name)
		}
		if _, err := parseStartTime([]byte(other)); err == nil && !strings.Contains(other, ")") {
			t.Fatalf("%q has a start time", other)
		}
	})
}
