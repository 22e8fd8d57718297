package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/mcp"
)

// mcpCommand serves tools to an agent that starts its MCP servers itself.
func (a *app) mcpCommand() *cobra.Command {
	var threadID string
	cmd := &cobra.Command{
		Use:   "mcp TOOL...",
		Short: "Serve tools of a thread over MCP on standard streams",
		Long: "Serve tools of a thread over MCP on standard streams, for an agent that starts its\n" +
			"MCP servers itself and knows no HTTP. Others get an address on loopback from the\n" +
			"daemon. The daemon is the one that the environment variable\n" +
			"PEDELEC_CORE_IPC_RUNTIME_FILE leads to, else that of the home folder.",
		GroupID: groupWork,
		RunE: func(cmd *cobra.Command, tools []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if threadID = strings.TrimSpace(threadID); threadID == "" {
				return usagef("name the thread with --thread-id ID")
			}
			return mcp.Stdio{Daemon: foundDaemon{a.findDaemon()}, ThreadID: threadID, Tools: tools}.Serve(ctx, a.stdin, a.stdout)
		},
	}
	cmd.Flags().StringVar(&threadID, "thread-id", os.Getenv(threadIDEnv), "`ID` of the thread (default: $"+threadIDEnv+")")
	cmd.Flag("thread-id").DefValue = ""
	return cmd
}

// findDaemon finds the daemon of --home if that is given, else as an agent does.
func (a *app) findDaemon() finder {
	if a.home != "" {
		return a.connect
	}
	return findForAgent
}
