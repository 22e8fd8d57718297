package e2e

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mountedEnv marks the process that has a mount namespace of its own.
const mountedEnv = "PEDELEC_E2E_MOUNTS"

// diskSize is the size of a disk that fills up quickly.
const diskSize = "size=4m"

// mount puts an empty file system in memory of a size on a folder until the test is
// over, in the process that has a mount namespace of its own.
func mount(t *testing.T, folder, size string) {
	t.Helper()
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
		unix.Mount("tmpfs", folder, "tmpfs", 0, size+",mode=0700"),
	); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// inMountNamespace runs the test again where mounts are its own.
func inMountNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	runtime.LockOSThread() // the kernel kills the child when this thread is gone
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mountedEnv+"=1", "PEDELEC_E2E_BINARY="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		t.Logf("in a mount namespace:\n%s", out)
	case errors.As(err, &exit):
		t.Errorf("in a mount namespace: %v\n%s", err, out)
	default:
		t.Skipf("no mount namespace can be made: %v", err)
	}
}
