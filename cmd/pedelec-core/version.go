package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		GroupID: groupCare,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(versionInfo{Version: version, Commit: commit, Go: runtime.Version(), Platform: platform()})
			}
			_, err := fmt.Fprintln(a.stdout, versionLine())
			return err
		},
	}
	a.addJSON(cmd)
	return cmd
}

// versionLine is the version as people read it.
func versionLine() string {
	return fmt.Sprintf("pedelec-core %s (commit %s, %s, %s)", version, commit, runtime.Version(), platform())
}

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// addJSON gives a command the flag --json.
func (a *app) addJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON, for scripts")
}
