package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Set by the linker; see the Makefile. version looks like 1.2.3, since clients
// compare it.
var (
	version = "1.0.0"
	commit  = "unknown"
)

// backgroundArg alone on the command line starts the daemon; launchers of the
// desktop app and the browser extension call it so.
const backgroundArg = "--background"

func main() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	if calledAs(os.Args[0], cliName) {
		os.Exit(a.runCLI(context.Background(), os.Args[1:]))
	}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// app is one run of the program: its streams and the flags that all commands
// share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	home    string // --home; see homePath
	json    bool   // --json of the commands that have it
	started bool   // the command line was understood and the command began
}

// run carries out one command line and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	if len(args) == 1 && args[0] == backgroundArg {
		args = []string{"serve", backgroundArg}
	}
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return fault.ExitDone
	}
	if !a.started {
		err = usageError{err}
	}
	status := exitStatus(err)
	if msg := sentence(err); msg != "" {
		fmt.Fprintln(a.stderr, msg)
	}
	if status == fault.ExitUsage {
		a.printUsage(cmd)
	}
	return status
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "pedelec-core",
		Short: "Keeps agent threads alive and drives coding agents through them",
		Long: "pedelec-core is a daemon that keeps agent threads and drives coding agents\n" +
			"(Codex, OpenCode, Cursor, Claude Code) through them, for web pages, apps and\n" +
			"scripts.\n\n" +
			"Start it with `pedelec-core serve`, talk to an agent with `pedelec-core chat`.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionLine(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(explainFlag)
	root.PersistentFlags().StringVar(&a.home, "home", "", "`DIR` of the daemon's files (default $PEDELEC_HOME, else ~/.pedelec)")
	root.AddGroup(
		&cobra.Group{ID: groupDaemon, Title: "The daemon:"},
		&cobra.Group{ID: groupWork, Title: "Work with agents:"},
		&cobra.Group{ID: groupCare, Title: "Care and scripts:"},
	)
	root.AddCommand(
		a.serveCommand(), a.stopCommand(), a.statusCommand(), a.doctorCommand(),
		a.chatCommand(), a.threadsCommand(), a.providersCommand(), a.assetsCommand(), a.originsCommand(), a.toolCommand(), a.mcpCommand(),
		a.demoCommand(), a.inspectCommand(), a.logsCommand(), a.backupCommand(), a.versionCommand(), a.completionCommand(),
		a.agentCommand(),
	)
	takeWhatUseSays(root)
	addHelpCommand(root)
	return root
}

// Groups of the help text.
const (
	groupDaemon = "daemon"
	groupWork   = "work"
	groupCare   = "care"
)

// exitError ends a command with a status when what went wrong was printed
// already, as part of its output.
type exitError struct{ status int }

func (exitError) Error() string { return "" }

// exitStatus returns the exit status of a command that ended with err.
func exitStatus(err error) int {
	var coded *fault.Error
	var exit exitError
	switch {
	case err == nil:
		return fault.ExitDone
	case errors.As(err, new(usageError)):
		return fault.ExitUsage
	case errors.As(err, &exit):
		return exit.status
	case errors.As(err, &coded):
		return coded.Code.Info().Exit
	}
	return fault.ExitFailed
}

// sentence returns what a person reads about err: the message of a coded error
// with its code, else the error's own text.
func sentence(err error) string {
	var coded *fault.Error
	if !errors.As(err, &coded) {
		return err.Error()
	}
	if coded.Code == fault.CoreRuntimeUnavailable {
		return coded.Message()
	}
	return fmt.Sprintf("%s (%s)", coded.Message(), coded.Code)
}

// platform is the system and machine that the program was built for.
func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
