package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// cliName is the name under which this program is the command by which agents
// call frontend tools from a shell:
//
//	pedelec-cli --thread-id ID tool-spec TOOL
//	pedelec-cli --thread-id ID tool-call TOOL JSON
//
// It prints one line of JSON, {"ok":true,"result":…} or {"ok":false,"error":…},
// and its exit status is always 0. Both are what agents have been told for
// years, so nothing of it changes. JSON may be - for standard input, which has
// room for more than a command line. Without --thread-id ID the thread is that of
// the environment variable PEDELEC_THREAD_ID.
const cliName = "pedelec-cli"

// threadIDEnv names the thread for the form without --thread-id.
const threadIDEnv = "PEDELEC_THREAD_ID"

// threadIDNotFound is a code of pedelec-cli alone: no daemon was asked.
const threadIDNotFound fault.Code = "PEDELEC_THREAD_ID_NOT_FOUND"

// cliUsage is the message for a command line that is none of the forms.
const cliUsage = "Usage: pedelec-cli --thread-id ID tool-spec TOOL, or pedelec-cli --thread-id ID tool-call TOOL JSON; JSON may be - for standard input."

// calledAs reports whether the program was started under a name.
func calledAs(argv0, name string) bool {
	base := filepath.Base(argv0)
	if runtime.GOOS == "windows" {
		base = strings.ToLower(base)
	}
	return strings.TrimSuffix(base, ".exe") == name
}

// runCLI carries out one command line of pedelec-cli.
func (a *app) runCLI(ctx context.Context, args []string) int {
	result, err := a.cli(ctx, args)
	if _, err := a.stdout.Write(cliLine(result, err)); err != nil {
		fmt.Fprintln(a.stderr, "The answer cannot be printed:", err)
	}
	return fault.ExitDone
}

func (a *app) cli(ctx context.Context, args []string) (jsontext.Value, error) {
	threadID, args, err := cliThread(args)
	if err != nil {
		return nil, err
	}
	switch {
	case len(args) == 2 && args[0] == "tool-spec":
		return toolSpec(ctx, findForAgent, threadID, args[1])
	case len(args) == 3 && args[0] == "tool-call":
		toolArgs, err := a.toolArgs(args[2])
		if err != nil {
			return nil, err
		}
		return toolCall(ctx, findForAgent, threadID, args[1], toolArgs)
	}
	return nil, fault.New(fault.ToolArgsInvalid, cliUsage)
}

// cliThread takes the thread from the front of a command line, or from the
// environment when the line begins with a verb.
func cliThread(args []string) (threadID string, rest []string, err error) {
	switch {
	case len(args) >= 2 && args[0] == "--thread-id":
		threadID = strings.TrimSpace(args[1])
		if threadID == "" {
			return "", nil, fault.New(fault.ToolArgsInvalid, "--thread-id needs the id of a thread.")
		}
		return threadID, args[2:], nil
	case len(args) > 0 && slices.Contains([]string{"tool-spec", "tool-call"}, args[0]):
		threadID = strings.TrimSpace(os.Getenv(threadIDEnv))
		if threadID == "" {
			return "", nil, fault.New(threadIDNotFound, "Name the thread with --thread-id ID, or in the environment variable "+threadIDEnv+".")
		}
		return threadID, args, nil
	}
	return "", nil, fault.New(fault.ToolArgsInvalid, cliUsage)
}

// cliLine is the line that pedelec-cli prints. The result stands in it byte for
// byte as the page gave it.
func cliLine(result jsontext.Value, err error) []byte {
	if err == nil {
		line := append([]byte(`{"ok":true,"result":`), result...)
		return append(line, "}\n"...)
	}
	line := thread.AppendError([]byte(`{"ok":false,"error":`), fault.From(err), math.MaxInt)
	return append(line, "}\n"...)
}
