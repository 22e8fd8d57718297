package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/pedelec/pedelec-core/internal/proc"
)

// probeOutput is how much of a probe's output is read, in bytes.
const probeOutput = 64 << 10

// probeGrace is how long a probe may take to end after it was told to.
const probeGrace = time.Second

// probe runs a program for its output (both streams). Nothing is there to be read,
// since some agents wait for the end of their input, and nothing of it is left.
func probe(ctx context.Context, path string, args []string, env []string) (string, error) {
	out, err := proc.Output(ctx, proc.Command{
		Path: path, Args: args, Env: env,
		Limit: probeOutput, Grace: probeGrace, WithStderr: true,
	})
	if ctx.Err() != nil {
		return out, fmt.Errorf("no answer in time: %w", ctx.Err())
	}
	return out, err
}
