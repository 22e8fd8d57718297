package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// leaveLimit is the longest that a clean shutdown may take.
const leaveLimit = 10 * time.Second

type serveFlags struct {
	logLevel   string
	logFormat  string
	parentPID  int
	background bool
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon until it is told to stop",
		Long: "Run the daemon until it is told to stop by Ctrl-C, SIGTERM or `pedelec-core stop`.\n" +
			"A second signal makes it leave at once. If a daemon serves this home already,\n" +
			"the command says so and exits 0.",
		GroupID: groupDaemon,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.logLevel, "log-level", "info", "lowest `LEVEL` that is logged: debug, info, warn, error")
	cmd.Flags().StringVar(&f.logFormat, "log-format", string(logText), "`FORMAT` of the log on stderr: text or json (the file holds JSON)")
	cmd.Flags().IntVar(&f.parentPID, "parent-pid", 0, "leave when the process `PID` is gone")
	cmd.Flags().BoolVar(&f.background, "background", false, "leave the terminal's session and log to the file only")
	return cmd
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	level, format, err := parseLogFlags(f.logLevel, f.logFormat)
	if err != nil {
		return err
	}
	if f.parentPID < 0 {
		return usagef("--parent-pid is the number of a process, not %d", f.parentPID)
	}
	home, err := ipc.Home(a.home)
	if err != nil {
		return err
	}
	if f.background {
		ignoreHangUp()
	}
	outliveReaders()
	signals := make(chan os.Signal, 2) // the second one counts, too
	signal.Notify(signals, stopSignals(f.background)...)
	defer signal.Stop(signals)
	repaired, err := prepareHome(home)
	if err != nil {
		return err
	}
	lock, err := a.lockHome(ctx, home, f)
	if lock == nil {
		return err
	}
	defer lock.Release()
	cleared, err := clearHome(home)
	if err != nil {
		return err
	}
	if f.background {
		leaveTerminal()
	}

	redact := &fault.Redactor{}
	log, logFile := openLog(logConfig{file: logPath(home), level: level, format: format, stderr: a.serveStderr(f), redact: redact})
	defer logFile.Close()
	tellRepairs(log, append(repaired, cleared...))
	err = runDaemon(ctx, home, lock, f, signals, log, redact)
	if err != nil && f.background {
		log.Error().Err(err).Msg("the daemon failed") // else the command line says so
	}
	return err
}

// lockHome takes the instance lock. It returns nil when this process has nothing to
// do: another daemon serves the home, which it says, or a signal came while it
// waited for one that starts or leaves.
func (a *app) lockHome(ctx context.Context, home string, f serveFlags) (lock *instanceLock, err error) {
	ctx, stop := signal.NotifyContext(ctx, stopSignals(f.background)...)
	defer stop()
	var other ipc.RuntimeFile
	take := func(ctx context.Context) error {
		lock, err = acquireLock(ctx, home, lockPatience, func() (serves bool) {
			other, serves = serving(ctx, home)
			return serves
		})
		return err
	}
	if f.background {
		err = take(ctx)
	} else {
		err = a.waiting(ctx, "Another pedelec-core starts or leaves", take)
	}
	if errors.Is(err, errLockHeld) {
		_, err = fmt.Fprintf(a.stdout, "pedelec-core serves %s already (pid %d, %s).\n", home, other.PID, other.Endpoint)
		return nil, err
	}
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return lock, err
}

// tellRepairs logs what was not as it must be in the home folder.
func tellRepairs(log zerolog.Logger, repaired []repair) {
	for _, r := range repaired {
		if r.movedTo == "" {
			log.Warn().Str("path", r.path).Msg("this was open to other users, or shut to the daemon; its mode is repaired")
			continue
		}
		log.Error().Str("path", r.path).Str("movedTo", r.movedTo).
			Msg("this cannot be what the daemon needs in its place; it was set aside and nothing of it was deleted")
	}
}

// runDaemon serves until there is a reason to leave, and leaves.
func runDaemon(ctx context.Context, home string, lock *instanceLock, f serveFlags, signals <-chan os.Signal, log zerolog.Logger, redact *fault.Redactor) error {
	short, err := armTestKnobs(log)
	if err != nil {
		return err
	}
	d := newDaemon(home, log, redact, short)
	d.lock = lock
	opened := make(chan error, 1)
	go func() { opened <- d.Open(ctx) }() // leave waits for it, unless it is told twice
	var reason string
	select {
	case err := <-opened:
		if err != nil {
			return err
		}
		opened <- nil // for leave
		notifySystemd(log, daemon.SdNotifyReady)
		reason = awaitStop(ctx, d, signals, f.parentPID)
	case s := <-signals:
		d.Shutdown() // which makes Open give up
		reason = s.String()
	}
	log.Info().Str("reason", reason).Msg("leaving")
	notifySystemd(log, daemon.SdNotifyStopping)
	return leave(d, opened, signals)
}

// serveStderr returns where the log goes besides the file.
func (a *app) serveStderr(f serveFlags) io.Writer {
	if f.background {
		return nil
	}
	return a.stderr
}

// stopSignals are the signals that ask the daemon to leave. In a terminal its
// end is one of them; in the background it is ignored. What whoever started us
// has made us ignore, as nohup does, stays so.
func stopSignals(background bool) []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(os.Interrupt) {
		signals = append(signals, os.Interrupt)
	}
	if !background && !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// awaitStop returns the reason for which the daemon shall leave, once there is
// one and whoever asks the daemon hears of it.
func awaitStop(ctx context.Context, d *core, signals <-chan os.Signal, parentPID int) string {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	defer d.server.Leave() // first of all: a start meanwhile must not take it for one that serves
	parentGone := make(chan struct{})
	if parentPID > 0 {
		watch.Go(func() {
			waitGone(ctx, parentPID)
			if ctx.Err() == nil {
				close(parentGone)
			}
		})
	}
	select {
	case s := <-signals:
		return s.String()
	case <-d.stopRequested:
		return "a client asked"
	case <-parentGone:
		return fmt.Sprintf("process %d, which --parent-pid names, is gone", parentPID)
	case <-ctx.Done():
		return ctx.Err().Error()
	}
}

// leave closes the daemon once its opening has ended, but takes no longer than
// leaveLimit, and leaves at once at a second signal. What is not closed then ends
// with the process.
func leave(d *core, opened <-chan error, signals <-chan os.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	closed := make(chan error, 1)
	go func() {
		if err := <-opened; err != nil {
			closed <- err
			return
		}
		closed <- d.Close(ctx)
	}()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("the daemon has left, but not everything could be put away: %w", err)
		}
		return nil
	case <-signals:
		return errors.New("left at once, since it was told twice; the next start puts things in order")
	case <-ctx.Done():
		return fmt.Errorf("the shutdown took more than %v; the next start puts things in order", leaveLimit)
	}
}

// armTestKnobs reads the hidden variables by which tests make the daemon fail
// and shorten its durations, and warns loudly when one is set.
func armTestKnobs(log zerolog.Logger) (durations, error) {
	if spec := os.Getenv(fault.PointsEnv); spec != "" {
		if err := fault.Arm(spec); err != nil {
			return nil, fmt.Errorf("%s: %w", fault.PointsEnv, err)
		}
		log.Warn().Strs("points", fault.Armed()).Msg("FAILPOINTS ARE ARMED: this daemon fails on purpose; unset " + fault.PointsEnv)
	}
	value := os.Getenv(durationsEnv)
	if value == "" {
		return nil, nil
	}
	log.Warn().Str("durations", value).Msg("DURATIONS ARE SHORTENED for a test; unset " + durationsEnv)
	return parseDurations(value)
}

// notifySystemd tells a service manager of the systemd kind how the daemon is.
func notifySystemd(log zerolog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn().Err(err).Msg("the service manager could not be told")
	}
}

// storePath returns the path of the database of a home folder.
func storePath(home string) string { return filepath.Join(home, storeFile) }
