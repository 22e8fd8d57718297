package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a consistent copy of the database while the daemon serves",
		Long: "Write a consistent copy of the database to a new file while the daemon serves.\n" +
			"To go back to it, stop the daemon and put the copy in the place of core.db.",
		GroupID: groupCare,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.backup(cmd.Context(), args[0]) },
	}
	a.addJSON(cmd)
	return cmd
}

func (a *app) backup(ctx context.Context, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("the path %s cannot be made absolute: %w", file, err)
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	var result ipc.BackupResult
	err = a.waiting(ctx, "Copying the database", func(ctx context.Context) error {
		return c.Call(ctx, "backup", map[string]any{"path": path}, &result)
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(result)
	}
	_, err = fmt.Fprintf(a.stdout, "%s holds a copy of the database, %d bytes.\n", path, result.Bytes)
	return err
}
