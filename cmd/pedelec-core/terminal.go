package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"
)

// isTerminal reports whether a person watches the stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// style is a colour of the terminal.
type style string

// The styles.
const (
	bold  style = "1"
	faint style = "2"
	red   style = "31"
	green style = "32"
	cyan  style = "36"
)

// painter colours text when a person watches, unless NO_COLOR is set.
type painter struct{ on bool }

func newPainter(w io.Writer) painter {
	return painter{on: isTerminal(w) && os.Getenv("NO_COLOR") == ""}
}

func (p painter) paint(s style, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// printJSON writes v, indented, for scripts.
func (a *app) printJSON(v any) error {
	text, err := json.Marshal(v, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", text)
	return err
}

// printTable writes rows in columns; the first row is the heading.
func (a *app) printTable(rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// maxExcerpt is how many bytes of a JSON value are shown in a line for people.
const maxExcerpt = 200

// excerpt returns the beginning of a long text.
func excerpt(text string) string {
	if len(text) <= maxExcerpt {
		return text
	}
	return strings.ToValidUTF8(text[:maxExcerpt], "") + "…"
}

// Shortest wait that is worth a word on a terminal, and how often the word
// moves.
const (
	progressDelay = 400 * time.Millisecond
	progressTick  = 120 * time.Millisecond
)

// waiting runs f and meanwhile shows on a terminal that something happens; on a
// pipe it shows nothing.
func (a *app) waiting(ctx context.Context, what string, f func(context.Context) error) error {
	if !isTerminal(a.stderr) {
		return f(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(progressDelay):
	}
	tick := time.NewTicker(progressTick)
	defer tick.Stop()
	for frames := `|/-\`; ; {
		for i := range len(frames) {
			fmt.Fprintf(a.stderr, "\r%c %s ", frames[i], what)
			select {
			case err := <-done:
				fmt.Fprintf(a.stderr, "\r%s\r", strings.Repeat(" ", len(what)+4))
				return err
			case <-tick.C:
			}
		}
	}
}
