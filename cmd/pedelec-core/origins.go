package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

func (a *app) originsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "origins",
		Short: "Decide which web pages may use agents",
		Long: "Decide which web pages may use agents. A page that connects for the first time waits\n" +
			"for a decision about its origin, such as https://app.example, for a minute.",
		GroupID: groupWork,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	ls := &cobra.Command{
		Use:   "ls",
		Short: "List the origins that are decided about, wait, or are connected",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.originsLs(cmd.Context()) },
	}
	a.addJSON(ls)
	cmd.AddCommand(ls,
		a.decideCommand("approve", "Let the pages of an origin use agents", "approved"),
		a.decideCommand("reject", "Refuse the pages of an origin", "rejected"),
		a.decideCommand("revoke", "Take a decision back; pages that were approved lose their connections", "undecided"),
	)
	return cmd
}

func (a *app) originsLs(ctx context.Context) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	var list ipc.OriginList
	if err := c.Call(ctx, "list_origins", nil, &list); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(list)
	}
	if len(list.Origins) == 0 {
		_, err := fmt.Fprintln(a.stdout, "No web page has asked yet.")
		return err
	}
	rows := [][]string{{"ORIGIN", "DECISION", "SINCE", "WAITING", "CONNECTIONS"}}
	for _, o := range list.Origins {
		rows = append(rows, []string{o.Origin, o.Decision, decidedSince(o), strconv.Itoa(o.Waiting), strconv.Itoa(o.Connections)})
	}
	return a.printTable(rows)
}

func decidedSince(o ipc.OriginInfo) string {
	switch {
	case o.BySettings:
		return "by allowedOrigins"
	case o.DecidedAt != nil:
		return o.DecidedAt.Local().Format(time.DateTime)
	}
	return "-"
}

func (a *app) decideCommand(decision, short, done string) *cobra.Command {
	return &cobra.Command{
		Use:   decision + " ORIGIN...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, origins []string) error {
			ctx := cmd.Context()
			c, err := a.connect(ctx)
			if err != nil {
				return err
			}
			for _, origin := range origins {
				if err := c.Call(ctx, "decide_origin", map[string]any{"origin": origin, "decision": decision}, nil); err != nil {
					return err
				}
				fmt.Fprintf(a.stdout, "%s: %s\n", origin, done)
			}
			return nil
		},
	}
}
