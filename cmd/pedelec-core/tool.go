package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/provider"
)

// toolAttempts is how often a tool is called when its answer does not come. The
// daemon takes the second for the first: it joins one that waits, and repeats an
// answer that did not arrive.
const toolAttempts = 2

// fromStdin stands for standard input on a command line.
const fromStdin = "-"

func (a *app) toolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tool",
		Short: "Describe and call frontend tools, as an agent would",
		Long: "Describe and call frontend tools, as an agent would. An agent itself does it with\n" +
			"`pedelec-cli`, this program under another name, whose exit status is always 0:\n\n" +
			"  pedelec-cli --thread-id ID tool-spec TOOL\n" +
			"  pedelec-cli --thread-id ID tool-call TOOL JSON",
		GroupID: groupWork,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.toolSpecCommand(), a.toolCallCommand())
	return cmd
}

func (a *app) toolSpecCommand() *cobra.Command {
	var threadID string
	cmd := &cobra.Command{
		Use:   "spec TOOL",
		Short: "Print what a tool is for and the schema of its arguments",
		RunE: func(cmd *cobra.Command, args []string) error {
			if threadID == "" {
				return errNoThread
			}
			spec, err := toolSpec(cmd.Context(), a.connect, threadID, args[0])
			if err != nil {
				return err
			}
			return a.printJSON(spec)
		},
	}
	addThread(cmd, &threadID)
	return cmd
}

func (a *app) toolCallCommand() *cobra.Command {
	var threadID string
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON|-]",
		Short: "Call a tool and print the page's result",
		Long: "Call a tool and print the page's result as one line of JSON. The thread must run a\n" +
			"turn. The arguments are a JSON object, - reads it from standard input, and none is {}.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if threadID == "" {
				return errNoThread
			}
			text := "{}"
			if len(args) == 2 {
				text = args[1]
			}
			toolArgs, err := a.toolArgs(text)
			if err != nil {
				return err
			}
			result, err := toolCall(cmd.Context(), a.connect, threadID, args[0], toolArgs)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%s\n", result)
			return err
		},
	}
	addThread(cmd, &threadID)
	return cmd
}

var errNoThread = usagef("name the thread with --thread ID")

func addThread(cmd *cobra.Command, threadID *string) {
	cmd.Flags().StringVar(threadID, "thread", os.Getenv(threadIDEnv), "`ID` of the thread (default: $"+threadIDEnv+")")
	cmd.Flag("thread").DefValue = "" // the environment of whoever asks for help is of no interest
}

// toolArgs returns the arguments of a call in compact form; "-" reads them from
// standard input. That they are an object is the daemon's to check.
func (a *app) toolArgs(text string) (jsontext.Value, error) {
	args := jsontext.Value(text)
	if text == fromStdin {
		all, err := io.ReadAll(io.LimitReader(a.stdin, ipc.MaxLineBytes+1))
		if err != nil {
			return nil, fault.Wrap(fault.ToolArgsInvalid, "cli.stdin", err, "The arguments cannot be read from standard input.")
		}
		args = all
	}
	if len(args) > ipc.MaxLineBytes {
		return nil, fault.Newf(fault.MessageTooLarge, "The arguments are larger than a message of %d bytes.", ipc.MaxLineBytes)
	}
	if err := args.Format(jsontext.PreserveRawStrings(true)); err != nil {
		return nil, fault.New(fault.ToolArgsInvalid, "The arguments are no JSON.").With("error", jsonProblem(err))
	}
	return args, nil
}

// jsonProblem says what is wrong with a text that is no JSON.
func jsonProblem(err error) string { return strings.TrimPrefix(err.Error(), "jsontext: ") }

// finder finds a daemon.
type finder func(context.Context) (*ipc.Client, error)

// findForAgent finds the daemon that started the agent, by the file to which the
// agent was pointed, else the one of the home folder.
func findForAgent(context.Context) (*ipc.Client, error) {
	if path := os.Getenv(provider.RuntimeFileEnv); path != "" {
		file, err := ipc.ReadRuntimeFileAt(path)
		return ipc.NewClient(file), err
	}
	home, err := ipc.Home("")
	if err != nil {
		return nil, err
	}
	file, err := ipc.ReadRuntimeFile(home)
	return ipc.NewClient(file), err
}

// toolPayload is the payload of tool_spec and tool_call. Its members have an order,
// so that a call which is made again is the same to the byte.
type toolPayload struct {
	ThreadID string         `json:"threadId"`
	ToolName string         `json:"toolName"`
	Args     jsontext.Value `json:"args,omitzero"`
}

func toolSpec(ctx context.Context, find finder, threadID, tool string) (spec jsontext.Value, err error) {
	err = foundDaemon{find}.Call(ctx, "tool_spec", toolPayload{ThreadID: threadID, ToolName: tool}, &spec)
	return spec, err
}

func toolCall(ctx context.Context, find finder, threadID, tool string, args jsontext.Value) (result jsontext.Value, err error) {
	err = foundDaemon{find}.Call(ctx, "tool_call", toolPayload{threadID, tool, args}, &result)
	return result, err
}

// foundDaemon is the daemon as an agent's tools reach it. It is looked for anew at
// each request: it may have been restarted since the last one.
type foundDaemon struct{ find finder }

// Call makes a request. A call of a tool is made once more if the connection broke
// before its answer came.
func (d foundDaemon) Call(ctx context.Context, typ string, payload, result any) error {
	for attempt := 1; ; attempt++ {
		err := d.callOnce(ctx, typ, payload, result)
		if typ != "tool_call" || attempt == toolAttempts || !wasNotAnswered(err) {
			return err
		}
	}
}

// callOnce closes its connection only after it has the answer: that is how the
// daemon knows that it arrived.
func (d foundDaemon) callOnce(ctx context.Context, typ string, payload, result any) error {
	c, err := d.find(ctx)
	if err != nil {
		return err
	}
	return c.Call(ctx, typ, payload, result)
}

// wasNotAnswered tells a connection that could not be made or broke from an
// answer of a daemon that leaves: only the former has a cause on this side.
func wasNotAnswered(err error) bool {
	var coded *fault.Error
	return errors.As(err, &coded) && coded.Code == fault.CoreRuntimeUnavailable && coded.Err != nil
}
