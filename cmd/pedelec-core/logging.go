package main

import (
	"io"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Rotation of <home>/logs/core.log: at most about 60 MiB on disk.
const (
	logMaxMegabytes = 10
	logMaxBackups   = 5
)

// logFormat is how log lines look on stderr; the file always holds JSON.
type logFormat string

// The log formats.
const (
	logText logFormat = "text"
	logJSON logFormat = "json"
)

// logConfig says where the daemon logs to.
type logConfig struct {
	file   string          // path of the log file
	level  zerolog.Level   // lowest level that is written
	format logFormat       // of stderr
	stderr io.Writer       // nil = the file only
	redact *fault.Redactor // sees every line first
}

// openLog builds the root logger. The closer closes the file.
func openLog(c logConfig) (zerolog.Logger, io.Closer) {
	file := &lumberjack.Logger{Filename: c.file, MaxSize: logMaxMegabytes, MaxBackups: logMaxBackups}
	steady := &steadyFile{file: file, stderr: c.stderr}
	var out io.Writer = steady
	if c.stderr != nil {
		out = zerolog.MultiLevelWriter(steady, stderrWriter(c))
	}
	log := zerolog.New(c.redact.Writer(out)).Level(c.level).With().Timestamp().Logger()
	return log, file
}

func stderrWriter(c logConfig) io.Writer {
	if c.format == logJSON {
		return c.stderr
	}
	return prettyLog(c.stderr)
}

// prettyLog returns a writer that takes JSON log lines and writes lines for
// people.
func prettyLog(w io.Writer) io.Writer {
	return zerolog.ConsoleWriter{Out: w, NoColor: !isTerminal(w), TimeFormat: time.TimeOnly}
}

// logPath returns the path of the log file of a home folder.
func logPath(home string) string { return filepath.Join(home, logFolder, logFile) }

// parseLogFlags checks --log-level and --log-format.
func parseLogFlags(level, format string) (zerolog.Level, logFormat, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil || level == "" {
		return 0, "", usagef("--log-level is one of debug, info, warn, error; not %q", level)
	}
	f := logFormat(format)
	if f != logText && f != logJSON {
		return 0, "", usagef("--log-format is text or json; not %q", format)
	}
	return l, f, nil
}

// init makes log times UTC with milliseconds wherever a logger is built.
func init() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
}
