package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

var (
	update      = flag.Bool("update", false, "rewrite the corpus' expectations from what the daemon says; review the diff")
	crashRounds = flag.Int("crash.rounds", 3, "rounds of the crash suites")
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of the crash suites; 0 picks one")
	realAgents  = flag.Bool("real", false, "also drive real agent programs")
	browserRun  = flag.Bool("browser", false, "also drive a real browser")
	soakTime    = flag.Duration("soak", 0, "run the soak for so long and print its table")
	benchWrite  = flag.String("bench.write", "", "write the table of measured figures to this file")
)

// binary is the program under test, built once a run.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == helperArg {
		os.Exit(help(os.Args[2:]))
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if enterNamespace() {
		return 0 // this process only waited for the one inside the namespace
	}
	dir, err := os.MkdirTemp("", "pedelec-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = build(dir); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

// build compiles the program as a release does, without symbols, so that sizes
// and times that are measured are those that users meet. PEDELEC_E2E_BINARY names
// one that is there already.
func build(dir string) (string, error) {
	if given := os.Getenv("PEDELEC_E2E_BINARY"); given != "" {
		return filepath.Abs(given)
	}
	out := filepath.Join(dir, "pedelec-core")
	if runtime.GOOS == "windows" {
		out += ".exe"
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "github.com/pedelec/pedelec-core/cmd/pedelec-core")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, text)
	}
	return out, nil
}
