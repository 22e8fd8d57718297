package main

import (
	"errors"
	"slices"
	"testing"
)

func TestAFaultOfTheEngineIsToldFromAFailure(t *testing.T) {
	exit := errors.New("exit status 1")
	for name, tt := range map[string]struct {
		exit   error
		output string
		want   outcome
	}{
		"well": {nil, "fuzz: elapsed: 2s, execs: 3 (1/sec), new interesting: 0 (total: 7)\nPASS\n", passed},
		"the end of the time as an error": {exit, "fuzz: elapsed: 30s, execs: 900 (30/sec), new interesting: 1 (total: 9)\n" +
			"--- FAIL: FuzzX (30.13s)\n    context deadline exceeded\nFAIL\n", cutShort},
		"an input": {exit, "--- FAIL: FuzzX (1.00s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: wrong\n    \n" +
			"    Failing input written to testdata/fuzz/FuzzX/0123\n", failed},
		"an input whose message is that of the engine": {exit, "--- FAIL: FuzzX (1.00s)\n    --- FAIL: FuzzX (0.00s)\n" +
			"    context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzX/0123\n", failed},
		"a test's own deadline": {exit, "--- FAIL: FuzzX (1.00s)\n        x_test.go:9: context deadline exceeded\n", failed},
		"a seed":                {exit, "failure while testing seed corpus entry: FuzzX/0123\n--- FAIL: FuzzX (0.24s)\n", failed},
		"a death":               {exit, "    fuzzing process hung or terminated unexpectedly: exit status 2\n", failed},
		"nothing":               {exit, "", failed},
	} {
		if got := judge(tt.exit, []byte(tt.output)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestTheLastFiguresAreTold(t *testing.T) {
	output := "fuzz: elapsed: 0s, execs: 1 (1/sec), new interesting: 0 (total: 7)\nfuzz: elapsed: 3s, execs: 4711 (15/sec), new interesting: 2 (total: 9)\n"
	if got := summary([]byte(output)); got != "4711 inputs, 2 new of 9" {
		t.Errorf("%q", got)
	}
}

func TestFuzzTestsAreFound(t *testing.T) {
	found, err := findTargets("../loopback", "../fault")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []target{{"../loopback", "FuzzCheckHost"}, {"../fault", "FuzzRedactor"}} {
		if !slices.Contains(found, want) {
			t.Errorf("%v is not among %v", want, found)
		}
	}
}

func TestAPatternThatMatchesNoFuzzTestIsRefused(t *testing.T) {
	t.Chdir("../..")
	if err := run(t.Context(), "1x", "FuzzNothingOfThatName$"); err == nil {
		t.Error("nothing ran, and all was well")
	}
}
