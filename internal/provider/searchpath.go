package provider

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/pedelec/pedelec-core/internal/proc"
)

// loginShellTimeout bounds a login shell that prints its PATH: start files of
// some users take seconds.
const loginShellTimeout = 3 * time.Second

// pathMarker frames the PATH in what a login shell prints, since its start files
// may print too. It begins with what cannot be part of the name before it.
const pathMarker = "%pedelec-path%"

// loginVariables are what a login gives a shell to begin with. Its start files run
// programs of all kinds, which the daemon's keys do not concern.
var loginVariables = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TERM",
	"LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*",
}

// LoginShell returns the shell whose PATH is worth asking for, or "": on macOS
// always, since programs that are started from the Dock get a bare PATH, and
// elsewhere when the daemon was not started from a terminal.
func LoginShell() string {
	switch {
	case runtime.GOOS == "windows":
		return ""
	case runtime.GOOS != "darwin" && term.IsTerminal(int(os.Stdin.Fd())):
		return ""
	}
	return os.Getenv("SHELL")
}

// nearDirs returns the folders that are known at once: the daemon's own and those
// of the process's PATH.
func nearDirs(cfg Config) []string {
	dirs := filepath.SplitList(lookup(cfg.Environ, "PATH"))
	if bin := cfg.binDir(); bin != "" {
		dirs = slices.Insert(dirs, 0, bin)
	}
	return usable(dirs)
}

// searchDirs returns the folders in which programs are looked for, best first:
// the near ones, the login shell's, the well-known ones.
func searchDirs(ctx context.Context, cfg Config) []string {
	dirs := append(nearDirs(cfg), filepath.SplitList(loginPath(ctx, cfg))...)
	if cfg.UserHome != "" {
		dirs = append(dirs, wellKnown(cfg.UserHome)...)
	}
	return usable(dirs)
}

// usable drops repeated folders, and relative ones, which would be the
// workspace's.
func usable(dirs []string) []string {
	unique := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		if filepath.IsAbs(dir) && !slices.Contains(unique, dir) {
			unique = append(unique, dir)
		}
	}
	return unique
}

// loginPath asks the login shell for its PATH; "" if there is none or it is slow.
func loginPath(ctx context.Context, cfg Config) string {
	if cfg.LoginShell == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, loginShellTimeout)
	defer cancel()
	args := []string{"-l", "-c", `printf '%s' "` + pathMarker + `$PATH` + pathMarker + `"`}
	if strings.HasSuffix(cfg.LoginShell, "zsh") { // many set PATH in .zshrc
		args = slices.Insert(args, 1, "-i")
	}
	out, _ := probe(ctx, cfg.LoginShell, args, proc.Select(cfg.Environ, loginVariables))
	_, rest, ok := strings.Cut(out, pathMarker)
	if !ok {
		return ""
	}
	path, _, ok := strings.Cut(rest, pathMarker)
	if !ok {
		return ""
	}
	return path
}

// lookup returns the last setting of a variable in an environment.
func lookup(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if n, v, ok := strings.Cut(kv, "="); ok && sameVariable(n, name) {
			return v
		}
	}
	return ""
}

func sameVariable(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}
