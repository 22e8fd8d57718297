package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func (a *app) threadsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "threads",
		Short:   "List, watch, end, resume and delete threads",
		GroupID: groupWork,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.threadsLsCommand(), a.threadsShowCommand(), a.threadsTailCommand(),
		a.threadsDoCommand("end ID...", "End threads; resume brings them back", "end_thread", "ended"),
		a.threadsDoCommand("resume ID...", "Make ended threads usable again", "resume_thread", "resumed"),
		a.threadsDoCommand("rm ID...", "Delete ended threads and their journal for good", "delete_thread", "deleted"),
	)
	return cmd
}

func (a *app) threadsLsCommand() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List threads",
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.threadsLs(cmd.Context(), status) },
	}
	cmd.Flags().StringVar(&status, "status", "", "only threads in `STATUS`: "+strings.Join(statusWords(), ", "))
	a.addJSON(cmd)
	return cmd
}

func statusWords() []string {
	var words []string
	for _, s := range thread.Statuses {
		words = append(words, s.String())
	}
	return words
}

func (a *app) threadsLs(ctx context.Context, status string) error {
	if _, ok := thread.ParseStatus(status); status != "" && !ok {
		return usagef("--status is one of %s; not %q", strings.Join(statusWords(), ", "), status)
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	threads, err := allThreads(ctx, c, status)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(ipc.ThreadList{Threads: threads})
	}
	if len(threads) == 0 {
		_, err := fmt.Fprintln(a.stdout, "There are no threads; begin one with: pedelec-core chat")
		return err
	}
	rows := [][]string{{"ID", "STATUS", "AGENT", "CHANGED", "TOKENS", "OWNER", "FOLDER"}}
	for _, t := range threads {
		rows = append(rows, []string{t.ThreadID, t.Status, t.Provider, t.UpdatedAt.Local().Format(time.DateTime),
			tokens(t.Usage), orDash(t.OwnerOrigin), t.WorkspacePath})
	}
	return a.printTable(rows)
}

// allThreads reads all pages of the list.
func allThreads(ctx context.Context, c *ipc.Client, status string) ([]ipc.ThreadSummary, error) {
	all := []ipc.ThreadSummary{}
	query := map[string]any{"limit": thread.MaxListLimit}
	if status != "" {
		query["status"] = status
	}
	for {
		var page ipc.ThreadList
		if err := c.Call(ctx, "list_threads", query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Threads...)
		if page.Next == "" {
			return all, nil
		}
		query["after"] = page.Next
	}
}

func (a *app) threadsShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show where a thread stands",
		RunE:  func(cmd *cobra.Command, args []string) error { return a.threadsShow(cmd.Context(), args[0]) },
	}
	a.addJSON(cmd)
	return cmd
}

func (a *app) threadsShow(ctx context.Context, id string) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	var s ipc.Snapshot
	if err := c.Call(ctx, "thread_snapshot", threadPayload(id), &s); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	rows := [][]string{{"thread", s.ThreadID}, {"status", s.Status}, {"latest event", strconv.FormatUint(s.LatestSeq, 10)}, {"tokens", tokens(s.Usage)}}
	if op := s.ActiveOperation; op != nil {
		rows = append(rows, []string{"runs", fmt.Sprintf("%s %s, for %s", op.OperationKind, op.OperationID, age(op.StartedAt))})
	}
	if op := s.LastCompletedOperation; op != nil {
		rows = append(rows, []string{"last", fmt.Sprintf("%s %s: %s", op.OperationKind, op.OperationID, outcome(op.Error))})
	}
	if tool := s.PendingToolRequest; tool != nil {
		rows = append(rows, []string{"waits for", fmt.Sprintf("a page's answer to %s %s, for %s of %v", tool.ToolName, excerpt(string(tool.Args)),
			age(tool.CreatedAt), time.Duration(tool.TimeoutMs)*time.Millisecond)})
	}
	return a.printTable(rows)
}

// threadsDoCommand makes a command that sends one request for each thread that
// is named.
func (a *app) threadsDoCommand(use, short, request, done string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, ids []string) error {
			ctx := cmd.Context()
			c, err := a.connect(ctx)
			if err != nil {
				return err
			}
			for _, id := range ids {
				err := a.waiting(ctx, "Waiting for the thread", func(ctx context.Context) error {
					return c.Call(ctx, request, threadPayload(id), nil)
				})
				if err != nil {
					return about(id, err)
				}
				fmt.Fprintf(a.stdout, "%s: %s\n", id, done)
			}
			return nil
		},
	}
}

// about names the thread in an error's message.
func about(id string, err error) error {
	coded := *fault.From(err)
	coded.Msg = fmt.Sprintf("Thread %s: %s", id, coded.Message())
	return &coded
}

func threadPayload(id string) map[string]any { return map[string]any{"threadId": id} }

func tokens(u *ipc.Usage) string {
	if u == nil {
		return "-"
	}
	return strconv.FormatUint(u.TotalTokens, 10)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func outcome(e *ipc.ErrorBody) string {
	if e == nil {
		return "done"
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}
