package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// listenerLimit is how long a connect on loopback may take. It is taken or refused
// at once, but for a daemon that is stopped and has a full queue.
const listenerLimit = time.Second

// removeDeadRuntimeFiles removes from a home folder the runtime files of a daemon
// that is gone: clients would look for it where they say. Those of one that may
// still serve, since only its lock's file was removed, stay. Only the holder of the
// instance lock may call it.
func removeDeadRuntimeFiles(home string) error {
	var failed error
	for _, name := range []string{ipc.AgentRuntimeFileName, ipc.RuntimeFileName} {
		f, err := ipc.ReadRuntimeFileAt(filepath.Join(home, name))
		if err != nil || alive(f.PID) && !refuses(f.Endpoint) {
			continue // there is none, it leads nobody anywhere, or its daemon may serve
		}
		if err := f.Remove(home); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the runtime file of an earlier run cannot be removed: %w", err))
		}
	}
	return failed
}

// refuses reports whether nobody listens at an endpoint on this machine.
func refuses(endpoint string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), listenerLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, connRefused)
}
