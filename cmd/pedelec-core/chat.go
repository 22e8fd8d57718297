package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// maxInputLine is the longest line that chat takes from its input.
const maxInputLine = 1 << 20

type chatFlags struct {
	once      string
	provider  string
	workspace string
	thread    string
	keep      bool
	tools     string
	toolExec  []string
}

func (a *app) chatCommand() *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to an agent; Ctrl-C cancels the turn, a second one leaves",
		Long: "Talk to an agent. Each line is a turn; what the agent says is streamed.\n" +
			"Ctrl-C cancels the turn, a second one leaves. With --once TEXT there is one turn,\n" +
			"for scripts: stdout holds what the agent said, and the exit status tells whether\n" +
			"the turn succeeded.\n\n" +
			"With --tools FILE the agent can call functions; the file is what create_thread takes\n" +
			"as skills: {\"guidance\": \"…\", \"tools\": [{\"name\", \"description\", \"argsSchema\"}]}.\n" +
			"Each call is answered by the command of --tool-exec, which gets the arguments on its\n" +
			"standard input and prints the result, else by you at the terminal.",
		GroupID: groupWork,
		RunE: func(cmd *cobra.Command, _ []string) error {
			once := cmd.Flags().Changed("once")
			return a.chat(cmd.Context(), f, once)
		},
	}
	cmd.Flags().StringVar(&f.once, "once", "", "send `TEXT`, print the answer, leave")
	cmd.Flags().StringVar(&f.provider, "provider", "", "`CODE` of the agent of a new thread (default: the one in the settings, else the first that is available)")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "`DIR` in which the agent works (default: a temporary one)")
	cmd.Flags().StringVar(&f.thread, "thread", "", "go on with thread `ID` instead of a new one")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "with --once: do not end the new thread afterwards")
	cmd.Flags().StringVar(&f.tools, "tools", "", "`FILE` with the tools of a new thread, as JSON")
	cmd.Flags().StringArrayVar(&f.toolExec, "tool-exec", nil, "`NAME=COMMAND` that answers calls of a tool; may be given several times")
	return cmd
}

func (f chatFlags) check() error {
	if f.thread != "" && (f.provider != "" || f.workspace != "" || f.tools != "") {
		return usagef("--thread goes on with a thread as it is; leave --provider, --workspace and --tools away")
	}
	if _, ok := thread.ParseProvider(f.provider); f.provider != "" && !ok {
		return usagef("--provider is one of %s; not %q", strings.Join(providerCodes(), ", "), f.provider)
	}
	return nil
}

func providerCodes() []string {
	var codes []string
	for _, p := range thread.Providers {
		codes = append(codes, p.String())
	}
	return codes
}

func (a *app) chat(ctx context.Context, f chatFlags, once bool) error {
	if err := f.check(); err != nil {
		return err
	}
	commands, err := parseToolCommands(f.toolExec)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	id, err := a.openChat(ctx, c, f)
	if err != nil {
		return err
	}
	sub, err := subscribe(ctx, c, id, nil)
	if err != nil {
		return err
	}
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	talk := &conversation{client: c, id: id, sub: sub, interrupts: interrupts, notes: a.stderr,
		out:      &transcript{w: a.stdout, live: isTerminal(a.stdout)},
		commands: commands, outputs: make(chan toolOutput), person: isTerminal(a.stdin)}
	if !once || talk.person {
		talk.lines = readLines(a.stdin)
	}
	defer func() { talk.sub.Close() }()
	if !once {
		return a.converse(ctx, talk)
	}
	err = talk.turn(ctx, f.once)
	if f.thread == "" && !f.keep {
		err = errors.Join(err, c.Call(ctx, "end_thread", threadPayload(id), nil))
	}
	return err
}

// openChat returns the id of a thread that is ready for a turn.
func (a *app) openChat(ctx context.Context, c *ipc.Client, f chatFlags) (string, error) {
	if f.thread != "" {
		return f.thread, reopen(ctx, c, f.thread)
	}
	provider, err := a.chooseProvider(ctx, c, f.provider)
	if err != nil {
		return "", err
	}
	payload := map[string]any{"provider": provider}
	isNew := false
	if f.workspace != "" {
		path, err := filepath.Abs(f.workspace)
		if err != nil {
			return "", fmt.Errorf("the path %s cannot be made absolute: %w", f.workspace, err)
		}
		payload["workspace"] = map[string]any{"path": path}
		_, err = os.Stat(path)
		isNew = errors.Is(err, fs.ErrNotExist)
	}
	if f.tools != "" {
		if payload["skills"], err = readSkills(f.tools); err != nil {
			return "", err
		}
	}
	var ref ipc.ThreadRef
	err = c.Call(ctx, "create_thread", payload, &ref)
	if err == nil && isNew { // it may be a typing mistake
		fmt.Fprintf(a.stderr, "The folder %s was not there; it has been made.\n", f.workspace)
	}
	return ref.ThreadID, err
}

// reopen makes a thread that has ended or failed ready for the next turn.
func reopen(ctx context.Context, c *ipc.Client, id string) error {
	var s ipc.Snapshot
	if err := c.Call(ctx, "thread_snapshot", threadPayload(id), &s); err != nil {
		return err
	}
	if s.Status == thread.Failed.String() {
		if err := c.Call(ctx, "end_thread", threadPayload(id), nil); err != nil {
			return err
		}
		s.Status = thread.Ended.String()
	}
	if s.Status != thread.Ended.String() {
		return nil
	}
	return c.Call(ctx, "resume_thread", threadPayload(id), nil)
}

// chooseProvider returns the provider that was asked for, else the default one,
// else the first that can be used. Only the last has to wait for a look at the
// machine.
func (a *app) chooseProvider(ctx context.Context, c *ipc.Client, asked string) (string, error) {
	if asked != "" {
		return asked, a.checkProvider(ctx, c, asked)
	}
	var chosen struct {
		DefaultProvider string `json:"defaultProvider"`
	}
	err := c.Call(ctx, "get_settings", nil, &chosen)
	if err != nil && !fault.Is(err, fault.SettingsReadFailed) {
		return "", err
	}
	if chosen.DefaultProvider != "" {
		return chosen.DefaultProvider, a.checkProvider(ctx, c, chosen.DefaultProvider)
	}
	var list []ipc.ProviderInfo
	if err := c.Call(ctx, "list_providers", nil, &list); err != nil {
		return "", err
	}
	for _, p := range list {
		if p.Available {
			return p.Code, nil
		}
	}
	return "", fault.New(fault.ProviderNotAvailable, "No agent can be used on this machine; see what is missing with: pedelec-core providers")
}

// lookPatience is how long a chat waits for the first look at the machine after a
// start. A turn looks for its agent in any case.
const lookPatience = 2 * time.Second

// checkProvider returns PROVIDER_NOT_AVAILABLE for a provider that cannot be used: a
// thread of it could be created, and only its first turn would say so. Since it may
// have been installed a moment ago, the daemon looks again before that is said.
func (a *app) checkProvider(ctx context.Context, c *ipc.Client, code string) error {
	limited, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	p, err := findProvider(limited, c, "list_providers", code)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil // nobody knows yet
	}
	if err == nil && !p.Available {
		err = a.waiting(ctx, "Looking for agents", func(ctx context.Context) (err error) {
			p, err = findProvider(ctx, c, "refresh_providers", code)
			return err
		})
	}
	if err == nil && !p.Available {
		err = fault.New(fault.ProviderNotAvailable, providerNote(p))
	}
	return err
}

// findProvider asks for the list of providers and returns one of them. One that is not
// listed counts as available: the daemon refuses it in its own words.
func findProvider(ctx context.Context, c *ipc.Client, request, code string) (ipc.ProviderInfo, error) {
	var list []ipc.ProviderInfo
	err := c.Call(ctx, request, nil, &list)
	for _, p := range list {
		if p.Code == code {
			return p, nil
		}
	}
	return ipc.ProviderInfo{Available: true}, err
}

// converse takes turns from the input until it ends or the user leaves.
func (a *app) converse(ctx context.Context, talk *conversation) error {
	prompting := talk.person
	if prompting {
		fmt.Fprintf(a.stderr, "Thread %s. Ctrl-C cancels a turn and leaves when none runs.\n", talk.id)
		defer fmt.Fprintf(a.stderr, "\nThe thread is kept; go on with: pedelec-core chat --thread %s\n", talk.id)
	}
	for {
		if prompting {
			fmt.Fprint(a.stderr, "> ")
		}
		line, err := talk.nextLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = talk.turn(ctx, line)
		if errors.Is(err, errLeft) {
			return nil
		}
		if err == nil {
			continue
		}
		if !prompting || fault.Is(err, fault.CoreRuntimeUnavailable) || fault.Is(err, fault.ThreadEnded) {
			return err
		}
		fmt.Fprintln(a.stderr, sentence(err))
		if err := talk.reopen(ctx); err != nil {
			return err
		}
	}
}

// readLines sends the lines of r and closes the channel at its end. A read that
// blocks for ever ends with the process only.
func readLines(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(r)
		scanner.Buffer(nil, maxInputLine)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return lines
}
