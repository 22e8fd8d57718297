package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// TestAFullDiskRefusesAndRecovers runs a store on a small file system of its
// own, which only the child sees.
func TestAFullDiskRefusesAndRecovers(t *testing.T) { onSmallDisk(t, "full") }

// TestAnUpgradeWithoutRoomForTheCopyChangesNothing is the same for an older file.
func TestAnUpgradeWithoutRoomForTheCopyChangesNothing(t *testing.T) { onSmallDisk(t, "upgrade") }

func onSmallDisk(t *testing.T, part string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small tmpfs")
	}
	out, err := runChild(t, part, t.TempDir(), "", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	})
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || exit != nil && exit.ExitCode() == 3 {
		t.Skipf("no file system can be mounted here: %v %s", err, out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func childFull() int { return inSmallDisk(fillAndRecover) }

func childUpgrade() int { return inSmallDisk(upgradeWithoutRoom) }

func inSmallDisk(part func(dir string) error) int {
	dir := os.Getenv(dirEnv)
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m")
	}
	if err != nil {
		fmt.Println(err)
		return 3
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := part(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// upgradeWithoutRoom makes an older database that fills more than half of the disk,
// so that the copy of it runs out of room in its middle.
func upgradeWithoutRoom(dir string) error {
	path := filepath.Join(dir, "core.db")
	s := New(path)
	s.InstanceID = "instance-1"
	if err := s.Open(); err != nil {
		return err
	}
	const revisions = 20
	for r := uint64(1); r <= revisions; r++ {
		if err := s.Commit(modelCommit("t", r, 30<<10)); err != nil {
			return err
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s = New(path)
	withSchema3(nil)(s)
	if err := s.Open(); !fault.Is(err, fault.StorageFull) || !strings.Contains(fault.From(err).Message(), "no room to copy") {
		return fmt.Errorf("an upgrade without room: %w", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
		return errors.New("the older file was changed")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		return fmt.Errorf("left behind: %v %w", left, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		return err
	}
	s = New(path)
	withSchema3(nil)(s)
	if err := s.Open(); err != nil {
		return fmt.Errorf("with room: %w", err)
	}
	if got, err := checkThread(s, "t"); err != nil || got != revisions {
		return fmt.Errorf("revision %d of %d: %w", got, revisions, err)
	}
	return s.Close()
}

func fillAndRecover(dir string) error {
	path := filepath.Join(dir, "core.db")
	s := New(path)
	s.InstanceID = "instance-1"
	s.Log = zerolog.New(os.Stderr)
	if err := s.Open(); err != nil {
		return err
	}
	r := uint64(0)
	var err error
	for err == nil {
		r++
		err = s.Commit(modelCommit("t", r, 30<<10))
	}
	if !fault.Is(err, fault.StorageFull) {
		return fmt.Errorf("a full disk gives %w", err)
	}
	// Each further answer tells the truth, and what is there can be read. Pages
	// that were freed lately may give room for another commit.
	for range 5 {
		err := s.Commit(modelCommit("t", r, 30<<10))
		if err == nil {
			r++
		} else if !fault.Is(err, fault.StorageFull) {
			return fmt.Errorf("still full, but %w", err)
		}
		if got, err := checkThread(s, "t"); err != nil || got != r-1 {
			return fmt.Errorf("revision %d of %d: %w", got, r-1, err)
		}
	}
	// Whether there is room for the little that Healthy writes is for the file to say.
	if err := s.Healthy(); err != nil && !fault.Is(err, fault.StorageFull) {
		return fmt.Errorf("a full disk is no damage: %w", err)
	}
	if _, err := s.Backup(context.Background(), filepath.Join(dir, "backup")); !fault.Is(err, fault.StorageFull) {
		return fmt.Errorf("backup on a full disk: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		return err
	}
	if err := s.Healthy(); err != nil {
		return fmt.Errorf("space is back, but %w", err)
	}
	for last := r + 10; r < last; r++ {
		if err := s.Commit(modelCommit("t", r, 30<<10)); err != nil {
			return fmt.Errorf("space is back, but %w", err)
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	s = New(path)
	if err := s.Open(); err != nil {
		return err
	}
	defer s.Close()
	if s.Damage() != nil || s.WasUnclean() {
		return fmt.Errorf("damage %v, unclean %v", s.Damage(), s.WasUnclean())
	}
	if got, err := checkThread(s, "t"); err != nil || got != r-1 {
		return fmt.Errorf("after reopening revision %d of %d: %w", got, r-1, err)
	}
	return nil
}
