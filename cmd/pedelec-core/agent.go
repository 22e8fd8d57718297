package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider/scripted"
)

// agentCommand is the agent that the demo and the tests drive. Arguments that a
// launcher appends for a real agent are passed on.
func (a *app) agentCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "agent --scripted",
		Short:              "An agent that does as its prompt says, for the demo and tests",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] != "--scripted" {
				return usagef("the only agent is the scripted one: pedelec-core agent --scripted")
			}
			if err := fault.Arm(os.Getenv(scripted.PointsEnv)); err != nil {
				return usagef("%s: %v", scripted.PointsEnv, err)
			}
			if status := scripted.Run(cmd.Context(), a.stdin, a.stdout, a.stderr, args, os.Environ()); status != fault.ExitDone {
				return exitError{status}
			}
			return nil
		},
	}
}
