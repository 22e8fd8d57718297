package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
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
		a.decideWaitingCommand("approve", "Let the pages of an origin use agents; without ORIGIN, ask about those that wait", "approved"),
		a.decideWaitingCommand("reject", "Refuse the pages of an origin; without ORIGIN, ask about those that wait", "rejected"),
		a.decideCommand("revoke", "Take a decision back; pages that were approved lose their connections", "undecided"),
	)
	return cmd
}

func (a *app) originsLs(ctx context.Context) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	list, err := listOrigins(ctx, c)
	if err != nil {
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

func listOrigins(ctx context.Context, c *ipc.Client) (list ipc.OriginList, err error) {
	err = c.Call(ctx, "list_origins", nil, &list)
	return list, err
}

func (a *app) decideCommand(decision, short, done string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   decision + " ORIGIN...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, origins []string) error {
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			return a.decideOrigins(cmd.Context(), c, origins, decision, done)
		},
	}
	a.addJSON(cmd)
	return cmd
}

// decideWaitingCommand is decideCommand for decisions that pages wait for:
// without a name it asks the person at the terminal about each of them.
func (a *app) decideWaitingCommand(decision, short, done string) *cobra.Command {
	cmd := a.decideCommand(decision, short, done)
	named := cmd.RunE
	cmd.Use = decision + " [ORIGIN...]"
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, origins []string) error {
		if len(origins) > 0 {
			return named(cmd, origins)
		}
		if !isTerminal(a.stdin) {
			return usagef("name the ORIGIN, such as https://app.example; those that wait are shown by: pedelec-core origins ls")
		}
		return a.decideWaiting(cmd.Context(), decision, done)
	}
	return cmd
}

func (a *app) decideWaiting(ctx context.Context, decision, done string) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	list, err := listOrigins(ctx, c)
	if err != nil {
		return err
	}
	chosen, err := chooseOrigins(a.stdin, a.stderr, list.Origins, decision)
	if err != nil {
		return err
	}
	return a.decideOrigins(ctx, c, chosen, decision, done)
}

func (a *app) decideOrigins(ctx context.Context, c *ipc.Client, origins []string, decision, done string) error {
	for _, origin := range origins {
		if err := c.Call(ctx, "decide_origin", map[string]any{"origin": origin, "decision": decision}, nil); err != nil {
			return err
		}
		if !a.json {
			fmt.Fprintf(a.stdout, "%s: %s\n", origin, done)
		}
	}
	if !a.json {
		return nil
	}
	list, err := listOrigins(ctx, c)
	if err != nil {
		return err
	}
	return a.printJSON(list)
}

// chooseOrigins asks about each origin that waits and returns those to which the
// answer was yes. An input that ends says no to the rest.
func chooseOrigins(in io.Reader, out io.Writer, list []ipc.OriginInfo, decision string) ([]string, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(o ipc.OriginInfo) bool { return o.Waiting == 0 })
	if len(list) == 0 {
		return nil, fault.New(fault.InvalidInput, "No page waits for a decision. Open the page first, or name its origin.")
	}
	var chosen []string
	answers := bufio.NewScanner(in)
	for _, o := range list {
		fmt.Fprintf(out, "A page of %s asks to use agents. %s it? [y/N] ", o.Origin, strings.ToUpper(decision[:1])+decision[1:])
		if !answers.Scan() {
			fmt.Fprintln(out)
			return chosen, answers.Err()
		}
		if yes := strings.ToLower(strings.TrimSpace(answers.Text())); yes == "y" || yes == "yes" {
			chosen = append(chosen, o.Origin)
		}
	}
	return chosen, nil
}
