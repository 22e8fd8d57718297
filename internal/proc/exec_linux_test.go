package proc

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

func TestAToolStartedByADyingAgentIsFoundInTheMidstOfItsExec(t *testing.T) {
	const id = "0123456789abcdef"
	ids := map[string]bool{id: true}
	for name, tt := range map[string]struct {
		looks  int // until it has an environment; 0 = never
		inExec bool
		found  bool
	}{
		"in its exec":               {looks: 3, inExec: true, found: true},
		"in it for ever":            {inExec: true},
		"an empty environment":      {},
		"one that comes unexpected": {looks: 3}, // it is not waited for
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScanner(targets{ids: ids})
				looks := 0
				s.environ = func(int) ([]byte, bool) {
					if looks++; tt.looks == 0 || looks < tt.looks {
						return nil, true
					}
					return []byte("A=b\x00" + RuntimeIDEnv + "=" + id + "\x00"), true
				}
				s.inExec = func(int) bool { return tt.inExec }
				if got := s.isTarget(os.Getpid()); got != tt.found {
					t.Errorf("found %t after %d looks, want %t", got, looks, tt.found)
				}
			})
		})
	}
}

func TestAProcessInItsExecIsToldByItsStat(t *testing.T) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	line := func(state string, flags, envEnd int) string {
		fields := strings.Fields(strings.Repeat("1 ", 50))
		fields[0], fields[6], fields[48] = state, strconv.Itoa(flags), strconv.Itoa(envEnd)
		return "42 (a ) b) " + strings.Join(fields, " ")
	}
	for name, tt := range map[string]struct {
		stat string
		want bool
	}{
		"this process":        {string(own), false},
		"in its exec":         {line("R", 0x400000, 0), true},
		"with an end":         {line("R", 0x400000, 4096), false},
		"dead":                {line("Z", 0x400000, 0), false},
		"a kernel's thread":   {line("I", 0x208040, 0), false},
		"nothing to speak of": {"42 (a)", false},
		"empty":               {"", false},
	} {
		if got := lacksEnviron([]byte(tt.stat)); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
