package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/inspect"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

func (a *app) inspectCommand() *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Look at threads, live events and running agents in the browser",
		Long: "Look at threads, live events and running agents in the browser. The link lets one browser\n" +
			"in and must be opened within a minute. The page changes nothing.",
		GroupID: groupCare,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.inspect(cmd.Context(), printOnly) },
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the link and open no browser")
	return cmd
}

func (a *app) inspect(ctx context.Context, printOnly bool) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	var link ipc.InspectLink
	if err := c.Call(ctx, "create_inspect_link", nil, &link); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.stdout, link.URL); err != nil {
		return err
	}
	note := fmt.Sprintf("The link works once, until %s.", link.ExpiresAt.Local().Format(time.TimeOnly))
	if !printOnly {
		switch opened, err := openBrowser(ctx, link.URL); {
		case err != nil:
			note = fmt.Sprintf("The browser cannot be opened (%v); open the link yourself. %s", err, note)
		case !opened:
			note = "No desktop is found; open the link yourself. " + note
		}
	}
	_, err = fmt.Fprintln(a.stderr, note)
	return err
}

// inspectLinks makes links to the page on the HTTP listener.
type inspectLinks struct{ d *core }

func (l inspectLinks) NewLink() (url string, expires time.Time) {
	return l.d.inspector.NewLink(l.d.web)
}

func (d *core) openInspector() {
	d.inspector = inspect.New(inspect.Config{
		Threads:  d.threads,
		Runtimes: d.providers,
		Encode: inspect.Encoding{
			Snapshot: ipc.EncodeSnapshot,
			Summary:  ipc.EncodeSummary,
			Event:    ipc.EncodeJournalEvent,
			Runtime:  ipc.EncodeRuntime,
		},
		Peers: d.peers,
		Log:   d.log,
	})
}
