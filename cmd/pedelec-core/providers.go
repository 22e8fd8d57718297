package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

func (a *app) providersCommand() *cobra.Command {
	var refresh bool
	cmd := &cobra.Command{
		Use:     "providers",
		Short:   "List the agents and whether each can be used on this machine",
		GroupID: groupWork,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.providers(cmd.Context(), refresh) },
	}
	cmd.Flags().BoolVar(&refresh, "refresh", false, "look at the machine again first")
	a.addJSON(cmd)
	return cmd
}

func (a *app) providers(ctx context.Context, refresh bool) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	request := "list_providers"
	if refresh {
		request = "refresh_providers"
	}
	var list []ipc.ProviderInfo
	err = a.waiting(ctx, "Looking for agents", func(ctx context.Context) error {
		return c.Call(ctx, request, nil, &list)
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(list)
	}
	rows := [][]string{{"CODE", "NAME", "AVAILABLE", ""}}
	for _, p := range list {
		rows = append(rows, []string{p.Code, p.Name, yesNo(p.Available), providerNote(p)})
	}
	return a.printTable(rows)
}

// providerNote says what more there is to know of a provider: why it cannot be
// used, or what was found.
func providerNote(p ipc.ProviderInfo) string {
	if p.Error != nil && *p.Error != "" {
		if p.Path == "" {
			return *p.Error
		}
		return fmt.Sprintf("%s It was found at %s.", *p.Error, p.Path)
	}
	var notes []string
	if p.IsDefault {
		notes = append(notes, "default")
	}
	if p.Path != "" { // told after a fresh look only
		notes = append(notes, p.Path)
	}
	if p.Version != "" {
		notes = append(notes, "version "+p.Version)
	}
	return strings.Join(notes, "; ")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
