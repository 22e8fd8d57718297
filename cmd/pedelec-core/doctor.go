package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/ipc"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/settings"
)

// How much of the log doctor reads, and how many of its errors it shows.
const (
	doctorLogLines  = 1000
	doctorLogErrors = 5
)

// verdict is how serious a finding is.
type verdict string

// The verdicts.
const (
	good    verdict = "ok"
	warning verdict = "warning"
	bad     verdict = "bad"
)

// finding is one thing that doctor looked at.
type finding struct {
	Verdict verdict `json:"verdict"`
	Area    string  `json:"area"`
	Text    string  `json:"text"`
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong and say what to do; works without a daemon",
		Long: "Look for what is wrong with the home folder, the settings, the database, the log,\n" +
			"the daemon and the agents, and say what to do. The exit status is 1 when something\n" +
			"is bad.",
		GroupID: groupDaemon,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
	a.addJSON(cmd)
	return cmd
}

func (a *app) doctor(ctx context.Context) error {
	home, err := ipc.Home(a.home)
	if err != nil {
		return err
	}
	var r report
	r.add(good, "program", "pedelec-core %s (%s), home %s", version, platform(), home)
	if r.examineHome(home) {
		r.examineSettings(home)
		r.examineStore(home)
		r.examineLog(home)
	}
	r.examineSystem()
	r.examineDaemon(ctx, home)
	if a.json {
		err = a.printJSON(r.findings)
	} else {
		err = a.printFindings(r.findings)
	}
	if err == nil && r.worst() == bad {
		return exitError{fault.ExitFailed}
	}
	return err
}

func (a *app) printFindings(findings []finding) error {
	p := newPainter(a.stdout)
	marks := map[verdict]string{good: p.paint(green, "✓"), warning: p.paint(cyan, "!"), bad: p.paint(red, "✗")}
	for _, f := range findings {
		if _, err := fmt.Fprintf(a.stdout, "%s %-9s %s\n", marks[f.Verdict], f.Area, f.Text); err != nil {
			return err
		}
	}
	return nil
}

// report gathers findings.
type report struct{ findings []finding }

func (r *report) add(v verdict, area, format string, args ...any) {
	r.findings = append(r.findings, finding{v, area, fmt.Sprintf(format, args...)})
}

func (r *report) worst() verdict {
	worst := good
	for _, f := range r.findings {
		if f.Verdict == bad || f.Verdict == warning && worst == good {
			worst = f.Verdict
		}
	}
	return worst
}

// examineHome looks at the folder and reports whether there is one to look into.
func (r *report) examineHome(home string) bool {
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		r.add(good, "home", "does not exist yet; the first start makes it")
		return false
	}
	wrong, err := wrongModes(home)
	if err != nil {
		r.add(bad, "home", "%v", err)
		return false
	}
	for _, w := range wrong {
		trouble := "other users can open"
		if w.shut {
			trouble = "you cannot open"
		}
		r.add(warning, "home", "%s %s; the next start repairs that, or run: chmod %o %q", trouble, w.path, w.want, w.path)
	}
	if len(wrong) == 0 {
		r.add(good, "home", "is yours alone")
	}
	lock := filepath.Join(home, lockFileName)
	if info, err := os.Lstat(lock); err == nil && !info.Mode().IsRegular() {
		r.add(bad, "home", "%s is no plain file, so no daemon can start; move it away", lock)
	}
	for _, path := range misfits(home) {
		r.add(warning, "home", "%s is in the way of the daemon's own; the next start sets it aside", path)
	}
	for _, path := range setAsideIn(home) {
		if !strings.HasPrefix(filepath.Base(path), storeFile+asideInfix) {
			r.add(warning, "home", "%s was in the way of the daemon's own and was set aside; remove it when you need it no more", path)
		}
	}
	return true
}

func (r *report) examineSettings(home string) {
	file := settings.New(filepath.Join(home, settingsFile))
	problems := file.Problems()
	for _, p := range problems {
		if p.Path == "" {
			r.add(bad, "settings", "%s cannot be read: %s; correct or remove it", file.Path(), p.Msg)
			continue
		}
		r.add(warning, "settings", "%s; correct it in %s", p, file.Path())
	}
	if len(problems) == 0 {
		r.add(good, "settings", "are understood")
	}
	for _, code := range settings.Providers {
		if file.Permission(code) == settings.PermitFull {
			r.add(warning, "settings", "providerSettings.%s.permission is full: its agent does everything without asking", code)
		}
	}
}

// examineStore looks for a database that cannot be opened, and for those that were
// found damaged and set aside.
func (r *report) examineStore(home string) {
	file := storePath(home)
	switch kindOf(file) {
	case aFolder:
		r.add(bad, "database", "%s is a folder and no database; move it away", file)
	case aDeadLink:
		r.add(bad, "database", "%s is a link to what is not there; mount what it leads to, or remove the link", file)
	}
	if led, err := filepath.EvalSymlinks(file); err == nil {
		file = led
	}
	aside, _ := filepath.Glob(file + asideInfix + "*") // the pattern is well-formed
	for _, path := range aside {
		r.add(warning, "database", "%s was damaged and is kept; its threads are not served. Restore a backup, or remove it when you need it no more", path)
	}
	if len(aside) == 0 {
		r.add(good, "database", "none was ever found damaged")
	}
}

// examineLog shows the latest errors of the log: trouble that belongs to no
// operation is told nowhere else.
func (r *report) examineLog(home string) {
	messages, err := loggedErrors(logPath(home))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.add(warning, "log", "cannot be read: %v", err)
		return
	}
	for _, m := range messages {
		r.add(warning, "log", "%s; see: pedelec-core logs", m)
	}
	if len(messages) == 0 {
		r.add(good, "log", "no error among its last %d lines", doctorLogLines)
	}
}

// loggedErrors returns the latest errors of a log, each with its time.
func loggedErrors(path string) ([]string, error) {
	file, err := openLogFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := seekLastLines(file, doctorLogLines); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range bytes.Lines(text) {
		var entry struct {
			Level   string `json:"level"`
			Time    string `json:"time"`
			Message string `json:"message"`
			Error   string `json:"error"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Level == "error" {
			found = append(found, strings.TrimSuffix(entry.Time+" "+entry.Message+": "+entry.Error, ": "))
		}
	}
	return found[max(0, len(found)-doctorLogErrors):], nil
}

func (r *report) examineSystem() {
	if loopback.NewPeerCheck(nil).Supported() {
		r.add(good, "system", "tells which user a connection comes from")
		return
	}
	r.add(warning, "system", "does not tell which user a connection comes from; if other people use this machine, set requireToken in settings.json")
}

func (r *report) examineDaemon(ctx context.Context, home string) {
	c, err := ipc.Dial(ctx, home)
	if fault.Is(err, fault.CoreRuntimeUnavailable) {
		r.examineSilence(home)
		return
	}
	if err != nil {
		r.add(bad, "daemon", "%s", sentence(err))
		return
	}
	f := c.Runtime()
	r.add(good, "daemon", "version %s, pid %d, has served for %s", f.Version, f.PID, age(f.StartedAt))
	if f.Version != version {
		r.add(warning, "daemon", "is version %s, this program %s; restart it with: pedelec-core stop && pedelec-core serve", f.Version, version)
	}
	r.examineReadiness(ctx, f.HTTPEndpoint)
	if _, err := os.Stat(cliPath(home)); err != nil {
		r.add(warning, "tools", "agents that call tools from a shell miss their command (%v); restart the daemon, which puts it there", err)
	}
	r.examineAgents(ctx, c)
}

// examineAgents tells which agents can be used. Before it says that not one can, the
// daemon looks at the machine again: one may have been installed a moment ago.
func (r *report) examineAgents(ctx context.Context, c *ipc.Client) {
	var list []ipc.ProviderInfo
	err := c.Call(ctx, "list_providers", nil, &list)
	if err == nil && !slices.ContainsFunc(list, isAvailable) {
		err = c.Call(ctx, "refresh_providers", nil, &list)
	}
	if err != nil {
		r.add(bad, "daemon", "cannot list agents: %s", sentence(err))
		return
	}
	none := !slices.ContainsFunc(list, isAvailable)
	if none {
		r.add(warning, "agents", "not one can be used, so no turn can run; install one or correct what follows, then run this again")
	}
	for _, p := range list {
		switch {
		case p.Available:
			r.add(good, "agents", "%s can be used", p.Code)
		case p.IsDefault:
			r.add(warning, "agents", "%s is the default but cannot be used: %s", p.Code, providerNote(p))
		case none:
			r.add(warning, "agents", "%s", providerNote(p))
		}
	}
}

func isAvailable(p ipc.ProviderInfo) bool { return p.Available }

// examineSilence tells a daemon that does not run from one that nobody can reach.
func (r *report) examineSilence(home string) {
	if holder, held := lockedBy(home); held {
		r.add(bad, "daemon", "a pedelec-core%s holds %s but cannot be reached; it may be starting or leaving, or is about to write its %s again. If this lasts, end that process, then start again", holder, filepath.Join(home, lockFileName), ipc.RuntimeFileName)
		return
	}
	r.add(good, "daemon", "does not run; start it with: pedelec-core serve")
}

// readinessLimit is how long the daemon may take to say whether it can do its work.
const readinessLimit = 10 * time.Second

// examineReadiness asks the daemon whether it can do its work.
func (r *report) examineReadiness(ctx context.Context, endpoint string) {
	ctx, cancel := context.WithTimeout(ctx, readinessLimit)
	defer cancel()
	answer, err := ask(ctx, "http://"+endpoint+"/readyz")
	if err != nil {
		r.add(bad, "daemon", "does not say whether it can do its work: %v", err)
		return
	}
	if answer.status != http.StatusOK {
		r.add(bad, "daemon", "cannot do all of its work: %s", answer.text)
	}
}

// answer is what an HTTP address says.
type answer struct {
	status int
	text   string
}

// maxAnswer bounds what is read of it.
const maxAnswer = 4 << 10

func ask(ctx context.Context, url string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return answer{res.StatusCode, strings.TrimSpace(string(text))}, err
}
