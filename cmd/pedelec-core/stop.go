package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

// stopPatience is how long stop waits for the daemon to be gone: its own limit
// and a little.
const stopPatience = leaveLimit + 5*time.Second

func (a *app) stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "stop",
		Short:   "Ask the daemon to leave, and wait until it has",
		GroupID: groupDaemon,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.stop(cmd.Context()) },
	}
}

func (a *app) stop(ctx context.Context) error {
	home, err := ipc.Home(a.home)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	f := c.Runtime()
	if err := c.Call(ctx, "shutdown", nil, nil); err != nil && !fault.Is(err, fault.CoreRuntimeUnavailable) {
		return err
	}
	err = a.waiting(ctx, "The daemon puts its things away", func(ctx context.Context) error {
		return awaitGone(ctx, home, f)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "The daemon (pid %d) has left.\n", f.PID)
	return err
}

// awaitGone waits until the daemon that wrote f holds its lock no more: the
// system frees it when the process has ended, whoever has to reap it.
func awaitGone(ctx context.Context, home string, f ipc.RuntimeFile) error {
	lock, err := acquireLock(ctx, home, stopPatience, func() bool {
		now, err := ipc.ReadRuntimeFile(home)
		return err == nil && now.PID != f.PID // a successor serves already
	})
	if errors.Is(err, errLockHeld) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the daemon (pid %d) was told to leave but is still there; end it with your system's means", f.PID)
	}
	return lock.Release()
}
