package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopLimit is how long an engine that was interrupted may take to end its worker.
const stopLimit = 10 * time.Second

// sidePerCPU is how many tests run side by side for each processor. The engine and its
// worker take turns, and a test shares its time with others then, but each gets
// FUZZTIME, and people wait for the sum.
const sidePerCPU = 2

// minimizeTime is how long the engine may make an input smaller that it wants to keep:
// its default is twice the time of a whole test here.
const minimizeTime = "3s"

func main() {
	fuzzTime := flag.String("fuzztime", "30s", "`TIME` for each test, or a number of inputs such as 2000x")
	only := flag.String("run", "", "run only tests whose folder/name matches this `PATTERN`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *fuzzTime, *only); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, fuzzTime, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	targets, err := findTargets("cmd", "internal")
	if err != nil {
		return err
	}
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("ask for the build cache: %w", err)
	}
	temp, err := os.MkdirTemp("", "fuzzall-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	r := &runner{fuzzTime: fuzzTime, temp: temp, cache: filepath.Join(strings.TrimSpace(string(cache)), "fuzz"), built: map[string]func() (string, error){}}
	side, ctx := errgroup.WithContext(ctx)
	side.SetLimit(sidePerCPU * runtime.NumCPU())
	targets = slices.DeleteFunc(targets, func(t target) bool { return !pattern.MatchString(t.dir + "/" + t.name) })
	if r.all = len(targets); r.all == 0 {
		return fmt.Errorf("no fuzz test matches %q; patterns are compared with folder/name", only)
	}
	for _, t := range targets {
		side.Go(func() error { return r.fuzz(ctx, t) })
	}
	if err := side.Wait(); err != nil {
		return err
	}
	fmt.Printf("%d fuzz tests ran for %s each; none failed.\n", r.all, fuzzTime)
	return nil
}

// runner runs fuzz tests.
type runner struct {
	fuzzTime string
	temp     string // folder for test binaries
	cache    string // folder for interesting inputs, as `go test` has it
	all      int    // tests to run

	mu    sync.Mutex
	done  int                               // tests that ran
	built map[string]func() (string, error) // by folder
}

// binary returns the instrumented test binary of a package, compiled once.
func (r *runner) binary(ctx context.Context, dir string) (string, error) {
	r.mu.Lock()
	compile, ok := r.built[dir]
	if !ok {
		path := filepath.Join(r.temp, fmt.Sprintf("%d.test", len(r.built)))
		compile = sync.OnceValues(func() (string, error) {
			out, err := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz=.", "-o", path, "./"+filepath.ToSlash(dir)).CombinedOutput()
			if err != nil {
				return "", fmt.Errorf("compile the tests of %s: %w\n%s", dir, err, out)
			}
			return path, nil
		})
		r.built[dir] = compile
	}
	r.mu.Unlock()
	return compile()
}

// fuzz runs one test and prints a line about it. The error of a test that failed
// holds all that the engine said.
func (r *runner) fuzz(ctx context.Context, t target) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // another has failed
	}
	path, err := r.binary(ctx, t.dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+r.fuzzTime,
		"-test.parallel=1", "-test.fuzzminimizetime="+minimizeTime, "-test.fuzzcachedir="+filepath.Join(r.cache, module, t.dir))
	cmd.Dir = t.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // the engine then ends its worker
	cmd.WaitDelay = stopLimit
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	began := time.Now()
	err = cmd.Run()
	if ctx.Err() != nil {
		return errors.Join(errors.New("interrupted"), ctx.Err())
	}
	note := ""
	switch judge(err, output.Bytes()) {
	case failed:
		return fmt.Errorf("%s in %s failed: %w\n%s", t.name, t.dir, err, output.Bytes())
	case cutShort:
		note = " (Go's engine reported the end of the time as an error; no input failed)"
	case passed:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	fmt.Printf("%2d/%d %s in %s: %s in %.1fs%s\n", r.done, r.all, t.name, t.dir, summary(output.Bytes()), time.Since(began).Seconds(), note)
	return nil
}

// module is the path under which the build cache keeps what was found.
const module = "github.com/pedelec/pedelec-core"
