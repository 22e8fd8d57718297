package codex

import (
	"path/filepath"
	"runtime"
	"strings"
)

// native returns the program behind the launcher that npm installs, or "". The
// launcher is a script that runs the program as its child; when it is killed the
// child lives on and keeps its conversations locked.
func native(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	program := "codex"
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	platform := "codex-" + npmSystem() + "-" + npmMachine()
	for _, pkg := range packages(real) {
		for _, vendor := range []string{
			filepath.Join(filepath.Dir(pkg), platform, "vendor"),
			filepath.Join(pkg, "node_modules", "@openai", platform, "vendor"),
			filepath.Join(pkg, "vendor"), // releases that came in one package
		} {
			for _, folder := range []string{"bin", "codex"} {
				if found, _ := filepath.Glob(filepath.Join(globQuote.Replace(vendor), "*", folder, program)); len(found) == 1 {
					return found[0]
				}
			}
		}
	}
	return ""
}

// packages returns where the launcher's package may be.
func packages(launcher string) []string {
	if filepath.Base(launcher) == "codex.js" {
		return []string{filepath.Dir(filepath.Dir(launcher))}
	}
	switch strings.ToLower(filepath.Ext(launcher)) {
	case ".cmd", ".ps1": // Windows has scripts instead of links
		dir := filepath.Dir(launcher)
		return []string{filepath.Join(dir, "node_modules", "@openai", "codex"), filepath.Join(filepath.Dir(dir), "@openai", "codex")}
	}
	return nil
}

// globQuote makes a path match itself only.
var globQuote = strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]")

func npmSystem() string {
	if runtime.GOOS == "windows" {
		return "win32"
	}
	return runtime.GOOS
}

func npmMachine() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}
