package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// browserTools is what the browser test needs beside this program.
type browserTools struct {
	node     string
	driver   string // the script of folder browser, beside its modules
	chromium string
}

// installBrowser finds Chromium and Node.js, and installs what is missing: Chromium
// by apt where root allows it, playwright-core from the npm registry into the
// user's cache folder.
var installBrowser = sync.OnceValues(func() (browserTools, error) {
	var tools browserTools
	var err error
	if tools.node, err = exec.LookPath("node"); err != nil {
		return tools, errors.New("node is not on PATH; install Node.js to test with a browser")
	}
	if tools.chromium, err = findChromium(); err != nil {
		return tools, err
	}
	tools.driver, err = installDriver()
	return tools, err
})

func findChromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return "", errors.New("chromium is not on PATH, and apt as root is not to be had; install Chromium to test with a browser")
	}
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", "chromium"}} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, text)
		}
	}
	return exec.LookPath("chromium")
}

// installDriver puts the script and the modules that it imports into one folder,
// as Node.js wants it, and returns the script's path there.
func installDriver() (string, error) {
	const source = "browser"
	manifest, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		return "", err
	}
	var pinned struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(manifest, &pinned); err != nil {
		return "", err
	}
	const module = "playwright-core"
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "pedelec-core-e2e", module+"-"+pinned.Dependencies[module])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "drive.mjs"} {
		b, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	driver := filepath.Join(dir, "drive.mjs")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", module, "package.json")); err == nil {
		return driver, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not on PATH; install Node.js to test with a browser")
	}
	cmd := exec.Command(npm, "install", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install %s: %w\n%s", module, err, text)
	}
	return driver, nil
}
