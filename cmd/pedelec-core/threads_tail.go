package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

type tailFlags struct {
	after  uint64
	follow bool
}

func (a *app) threadsTailCommand() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail ID",
		Short: "Print the stored events of a thread, and with -f those to come",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.threadsTail(ctx, args[0], f)
		},
	}
	cmd.Flags().Uint64Var(&f.after, "after", 0, "begin after event `SEQ`")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what happens from now on, until Ctrl-C")
	cmd.Flags().BoolVar(&a.json, "json", false, "print each event as one line of JSON")
	return cmd
}

func (a *app) threadsTail(ctx context.Context, id string, f tailFlags) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if f.follow {
		return a.followEvents(ctx, c, id, f.after)
	}
	after := f.after
	for {
		var page ipc.EventList
		payload := map[string]any{"threadId": id, "afterSeq": after, "limit": thread.MaxListLimit}
		if err := c.Call(ctx, "read_events", payload, &page); err != nil {
			return err
		}
		if page.Truncated && after == f.after {
			fmt.Fprintln(a.stderr, "Older events are no longer stored.")
		}
		for _, ev := range page.Events {
			if err := a.printEvent(ev); err != nil {
				return err
			}
		}
		if len(page.Events) == 0 {
			return nil
		}
		after = page.NextSeq
	}
}

// followEvents prints stored events and then what comes, until ctx ends.
func (a *app) followEvents(ctx context.Context, c *ipc.Client, id string, after uint64) error {
	stream, err := c.Subscribe(ctx, id, &after)
	if err != nil {
		return err
	}
	defer stream.Close()
	if stream.Replay != nil && stream.Replay.Truncated {
		fmt.Fprintln(a.stderr, "Older events are no longer stored.")
	}
	for {
		ev, err := stream.Next(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.printEvent(ev); err != nil {
			return err
		}
	}
}

func (a *app) printEvent(ev ipc.Event) error {
	if a.json {
		line, err := json.Marshal(ev)
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		_, err = fmt.Fprintf(a.stdout, "%s\n", line)
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%6d  %-27s %s\n", ev.Seq, ev.Type, eventText(ev))
	return err
}

// eventText says in one line what an event tells.
func eventText(ev ipc.Event) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(ev.Status)
	if ev.Text != "" {
		add(strconv.Quote(ev.Text))
	}
	add(ev.ToolName)
	add(excerpt(string(ev.Args)))
	add(excerpt(string(ev.Result)))
	add(ev.ProviderSessionID)
	if ev.TotalTokens > 0 {
		add(strconv.FormatUint(ev.TotalTokens, 10) + " tokens")
	}
	add(ev.OperationKind)
	if ev.Success != nil && *ev.Success {
		add("done")
	}
	if ev.Error != nil {
		add(outcome(ev.Error))
	}
	if ev.Message != nil {
		add("for " + strconv.Quote(*ev.Message))
	}
	return strings.Join(parts, " ")
}
