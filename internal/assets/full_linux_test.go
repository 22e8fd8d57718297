package assets

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pedelec/pedelec-core/internal/fault"
)

const diskSize = 4 << 20

// smallDiskEnv names the folder for TestOnASmallDisk, which runs in a process
// that may mount something there.
const smallDiskEnv = "ASSETS_TEST_SMALL_DISK"

// TestAFullDiskRefusesTheUploadAndRecovers uploads into a small file system of
// its own, which only the child sees.
func TestAFullDiskRefusesTheUploadAndRecovers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small tmpfs")
	}
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestOnASmallDisk$", "-test.v")
	cmd.Env = append(os.Environ(), smallDiskEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || strings.Contains(string(out), "--- SKIP") {
		t.Skipf("no file system can be mounted here: %v\n%s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOnASmallDisk") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestOnASmallDisk(t *testing.T) {
	dir := os.Getenv(smallDiskEnv)
	if dir == "" {
		t.Skip("runs in a child of TestAFullDiskRefusesTheUploadAndRecovers only")
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize))
	}
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	fillAndRecover(t, dir)
}

func fillAndRecover(t *testing.T, dir string) {
	s := newSceneAt(t, dir)
	s.write("old", "f")
	for range 3 {
		s.put(s.uploadTicket(threadA, "/f", 2*diskSize), make([]byte, 2*diskSize)).expect(t, http.StatusInsufficientStorage, fault.StorageFull)
		s.wantFiles("/f")
		s.wantContent("old", "f")
		if staged := s.threads.stagedOf(threadA); staged != "" {
			t.Errorf("the record still holds %q", staged)
		}
	}
	s.put(s.uploadTicket(threadA, "/f", diskSize/2), make([]byte, diskSize/2)).expect(t, http.StatusCreated, "")
}
