package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// followInterval is how often logs -f looks for new lines: there is nothing
// portable to wait on.
const followInterval = 200 * time.Millisecond

// tailBlock is how much of the file's end is read at a time to find the last
// lines.
const tailBlock = 64 << 10

type logsFlags struct {
	lines  int
	follow bool
}

func (a *app) logsCommand() *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:     "logs",
		Short:   "Show the end of the daemon's log, running or not",
		GroupID: groupCare,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.logs(ctx, f)
		},
	}
	cmd.Flags().IntVarP(&f.lines, "lines", "n", 50, "show the last `N` lines")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what is logged from now on, until Ctrl-C")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the lines as they are in the file, which is JSON")
	return cmd
}

func (a *app) logs(ctx context.Context, f logsFlags) error {
	if f.lines < 0 {
		return usagef("--lines is 0 or more, not %d", f.lines)
	}
	home, err := ipc.Home(a.home)
	if err != nil {
		return err
	}
	path := logPath(home)
	file, err := openLogFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no log at %s; it begins with the first start: pedelec-core serve", path)
	}
	if err != nil {
		return fmt.Errorf("the log cannot be opened: %w", err)
	}
	defer func() { file.Close() }()

	var out io.Writer = a.stdout
	if !a.json {
		out = &lineWriter{pretty: prettyLog(a.stdout), plain: a.stdout}
	}
	if err := seekLastLines(file, f.lines); err != nil {
		return fmt.Errorf("the log cannot be read: %w", err)
	}
	for {
		if _, err := io.Copy(out, file); err != nil {
			return fmt.Errorf("the log cannot be read: %w", err)
		}
		if !f.follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followInterval):
		}
		if next := rotated(path, file); next != nil {
			// The rest of the old file first: it was written before the new one.
			if _, err := io.Copy(out, file); err != nil {
				return fmt.Errorf("the log cannot be read: %w", err)
			}
			file.Close()
			file = next
		}
	}
}

// openLogFile opens the log for reading.
func openLogFile(path string) (*os.File, error) {
	if kindOf(path) == aPipe {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return os.Open(path)
}

// rotated returns the file that is now at path if it is not the open one, else
// nil.
func rotated(path string, open *os.File) *os.File {
	before, err := open.Stat()
	if err != nil {
		return nil
	}
	now, err := os.Stat(path)
	if err != nil || os.SameFile(before, now) {
		return nil // between the rename and the new file there is none; look again later
	}
	next, err := openLogFile(path)
	if err != nil {
		return nil
	}
	return next
}

// seekLastLines places the file so that reading gives its last n lines.
func seekLastLines(file *os.File, n int) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return err
	}
	found := 0
	for start := end; start > 0; {
		size := min(start, tailBlock)
		start -= size
		block := make([]byte, size)
		if _, err := file.ReadAt(block, start); err != nil {
			return err
		}
		if start+size == end && block[size-1] == '\n' {
			block = block[:size-1] // the last line's own end
		}
		for i := bytes.LastIndexByte(block, '\n'); i >= 0; i = bytes.LastIndexByte(block[:i], '\n') {
			if found++; found == n {
				_, err := file.Seek(start+int64(i)+1, io.SeekStart)
				return err
			}
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// lineWriter hands whole lines to pretty, which formats one a call. A line that
// is no log line goes to plain as it is.
type lineWriter struct {
	pretty, plain io.Writer
	rest          []byte
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		line := l.rest[:end]
		l.rest = l.rest[end:]
		if _, err := l.pretty.Write(line); err == nil {
			continue
		}
		if _, err := l.plain.Write(line); err != nil {
			return 0, err
		}
	}
}
