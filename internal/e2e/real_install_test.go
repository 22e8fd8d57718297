package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// openCodeVersion is the release that the tests were written against.
const openCodeVersion = "1.18.33"

// installOpenCode installs the agent from the npm registry into the user's cache
// folder, once, and returns the path of its program. No install script runs: the
// program comes in a package of its own for each system.
var installOpenCode = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "pedelec-core-e2e", "opencode-"+openCodeVersion)
	program := filepath.Join(dir, "node_modules", "opencode-"+npmPlatform(), "bin", "opencode")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return program, tryOpenCode(program)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not on PATH; install Node.js to test with real agents")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command(npm, "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "opencode-ai@"+openCodeVersion)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install opencode-ai@%s: %w\n%s", openCodeVersion, err, text)
	}
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the package has no program for %s", npmPlatform())
	}
	return program, tryOpenCode(program)
})

// tryOpenCode runs the program once. It also brings it into the machine's memory,
// so that the daemon's own short look at it does not time out.
func tryOpenCode(program string) error {
	home, err := os.MkdirTemp("", "pedelec-e2e-home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	cmd := exec.Command(program, "--version")
	cmd.Env = []string{"HOME=" + home, "USERPROFILE=" + home, "PATH=" + os.Getenv("PATH"), "OPENCODE_DISABLE_AUTOUPDATE=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s --version: %w\n%s", program, err, out)
	}
	return nil
}

// npmPlatform is what npm packages call this system.
func npmPlatform() string {
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	return runtime.GOOS + "-" + arch
}
