package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideEnv marks the process that runs inside the namespace.
const insideEnv = "PEDELEC_E2E_OFFLINE"

// enterNamespace runs the tests again in a network namespace in which there is
// nothing but loopback, when programs of others are to be driven and root allows
// it. It returns true in the process that only waited. Those programs are installed
// before, since that needs the network.
func enterNamespace() bool {
	if os.Getenv(insideEnv) != "" {
		if err := raiseLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: no loopback in the namespace:", err)
			os.Exit(1)
		}
		return false
	}
	if !installOthers() {
		return false
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "e2e: not root, so agents and browsers are not cut off the network")
		return false
	}
	// The kernel kills the child when the thread that started it is gone.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "e2e: no network namespace, so agents and browsers are not cut off the network:", err)
		return false
	}
	return true
}

// installOthers installs the programs of others that are to be driven, and reports
// whether there are any. The tests of those that could not be had say so and skip.
func installOthers() bool {
	found := false
	if *realAgents {
		for _, install := range []func() (string, error){installOpenCode, realCodex.install, realClaude.install} {
			if _, err := install(); err == nil {
				found = true
			}
		}
	}
	if *browserRun {
		if _, err := installBrowser(); err == nil {
			found = true
		}
	}
	return found
}

// offline reports whether the test has no network but loopback.
func offline() bool { return os.Getenv(insideEnv) != "" }

// raiseLoopback brings the interface lo of a new namespace up.
func raiseLoopback() error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	if lo.Flags&net.FlagUp != 0 {
		return nil
	}
	return setLoopback(true)
}

// setLoopback brings the interface lo up or down. It is for namespaces of our own.
func setLoopback(up bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		return err
	}
	flags := req.Uint16() &^ (unix.IFF_UP | unix.IFF_RUNNING)
	if up {
		flags |= unix.IFF_UP | unix.IFF_RUNNING
	}
	req.SetUint16(flags)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
