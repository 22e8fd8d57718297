package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pedelec/pedelec-core/internal/ipc"
)

// deadProcess is the number of a process that has ended.
func deadProcess(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.list=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestRuntimeFilesOfTheDeadAreRemoved(t *testing.T) {
	listening, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	closed, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	dead := deadProcess(t)
	for name, tt := range map[string]struct {
		pid   int
		addr  net.Addr
		stays bool
	}{
		"dead":                        {dead, closed.Addr(), false},
		"dead, another has its port":  {dead, listening.Addr(), false},
		"dead, another has its pid":   {os.Getpid(), closed.Addr(), false},
		"alive, its lock was removed": {os.Getpid(), listening.Addr(), true},
	} {
		home := t.TempDir()
		f := ipc.NewRuntimeFile(tt.addr)
		f.PID = tt.pid
		if err := f.Write(home); err != nil {
			t.Fatal(err)
		}
		if err := removeDeadRuntimeFiles(home); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range []string{ipc.RuntimeFileName, ipc.AgentRuntimeFileName} {
			if _, err := os.Stat(filepath.Join(home, file)); (err == nil) != tt.stays {
				t.Errorf("%s: %s: %v", name, file, err)
			}
		}
	}
}
