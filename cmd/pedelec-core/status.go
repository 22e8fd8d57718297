package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Tell whether the daemon runs, where, and what it keeps running",
		GroupID: groupDaemon,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
	a.addJSON(cmd)
	return cmd
}

// statusReport is what status prints with --json.
type statusReport struct {
	Running      bool              `json:"running"`
	Home         string            `json:"home"`
	Version      string            `json:"version"`
	PID          int               `json:"pid"`
	Endpoint     string            `json:"endpoint"`
	HTTPEndpoint string            `json:"httpEndpoint"`
	InstanceID   string            `json:"instanceId"`
	StartedAt    time.Time         `json:"startedAt"`
	Runtimes     []ipc.RuntimeInfo `json:"runtimes"`
}

// notRunning is what status prints with --json when no daemon answers.
type notRunning struct {
	Running bool   `json:"running"`
	Home    string `json:"home"`
}

func (a *app) status(ctx context.Context) error {
	home, err := ipc.Home(a.home)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if a.json && fault.Is(err, fault.CoreRuntimeUnavailable) {
		return errors.Join(exitError{fault.ExitNotRunning}, a.printJSON(notRunning{Home: home}))
	}
	if err != nil {
		return err
	}
	f := c.Runtime()
	var pong ipc.PingResult
	if err := c.Call(ctx, "ping", nil, &pong); err != nil {
		return err
	}
	var list ipc.RuntimeList
	if err := c.Call(ctx, "list_runtimes", nil, &list); err != nil {
		return err
	}
	report := statusReport{
		Running: true, Home: home, Version: pong.Version, PID: pong.ProcessID, Endpoint: f.Endpoint,
		HTTPEndpoint: f.HTTPEndpoint, InstanceID: pong.InstanceID, StartedAt: f.StartedAt, Runtimes: list.Runtimes,
	}
	if a.json {
		return a.printJSON(report)
	}
	return a.printStatus(report)
}

func (a *app) printStatus(r statusReport) error {
	fmt.Fprintf(a.stdout, "pedelec-core %s has served %s for %s.\n\n", r.Version, r.Home, age(r.StartedAt))
	err := a.printTable([][]string{
		{"pid", strconv.Itoa(r.PID)},
		{"endpoint", r.Endpoint},
		{"health", "http://" + r.HTTPEndpoint + "/healthz"},
		{"metrics", "http://" + r.HTTPEndpoint + "/metrics"},
	})
	if err != nil {
		return err
	}
	if len(r.Runtimes) == 0 {
		_, err := fmt.Fprintln(a.stdout, "\nNo agent runs; the next turn starts one.")
		return err
	}
	fmt.Fprintln(a.stdout)
	rows := [][]string{{"AGENT", "PID", "AGE", "SESSIONS", "TURNS", "MEMORY"}}
	for _, p := range r.Runtimes {
		rows = append(rows, []string{p.Provider, strconv.Itoa(p.PID), age(p.StartedAt),
			strconv.Itoa(p.Sessions), strconv.Itoa(p.Turns), megabytes(p.RSSBytes)})
	}
	return a.printTable(rows)
}

// age tells a person how long ago a moment was.
func age(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	ago := time.Since(t).Round(time.Second)
	if ago < time.Minute {
		return ago.String()
	}
	return strings.TrimSuffix(ago.Round(time.Minute).String(), "0s")
}

// megabytes tells a size to a person.
func megabytes(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
