//go:build !windows

package assets

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// dirEnv is the workspace of a child.
const dirEnv = "ASSETS_TEST_DIR"

// childParts are what the test binary can be asked to do as a child.
var childParts = map[string]func() int{"upload": childUpload}

// runChild runs a part of this binary and returns what it printed.
func runChild(t *testing.T, part, dir, points string) (out string, err error) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+part, dirEnv+"="+dir, fault.PointsEnv+"="+points)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if stderr.Len() > 0 {
		t.Logf("child: %s", stderr.String())
	}
	return string(stdout), err
}

// childUpload uploads 1 MiB over a file, and prints the name that the record
// holds whenever it changes.
func childUpload() int {
	threads := &fakeThreads{info: map[string]Info{threadA: {Workspace: os.Getenv(dirEnv), Status: 1}}, staged: map[string]string{}}
	m := New(Config{Threads: printing{threads}, HTTPEndpoint: func() string { return "127.0.0.1:1" }})
	target := "/d/f"
	const size = 1 << 20
	ticket, err := m.CreateUpload(context.Background(), anyone, UploadRequest{ThreadID: threadA, Filename: "f", SizeBytes: size, TargetPath: &target})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	t, err := m.redeem(upload, ticket.UploadID, ticket.Token)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	t.connect(http.NewResponseController(noDeadlines{}))
	if _, err := t.store(bytes.NewReader(make([]byte, size))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestACrashAtAnyStepLeavesTheOldFileOrTheNewOne kills a process in the middle
// of an upload, and cleans up as the next start does.
func TestACrashAtAnyStepLeavesTheOldFileOrTheNewOne(t *testing.T) {
	if _, err := exec.LookPath("kill"); err != nil {
		t.Skip("no signals here")
	}
	for _, c := range []struct {
		point  string
		staged bool // the temporary file is left
		done   bool // the new file is there
	}{
		{"assets.upload.staged=kill", false, false},
		{"assets.upload.chunk=kill", true, false},
		{"assets.upload.chunk=kill@3", true, false},
		{"assets.upload.written=kill", true, false},
		{"assets.upload.renamed=kill", false, true},
	} {
		t.Run(c.point, func(t *testing.T) {
			s := newScene(t)
			s.write("old", "d", "f")
			recorded, err := runChild(t, "upload", s.workspace, c.point)
			if killed, ok := err.(*exec.ExitError); !ok || killed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the child was not killed: %v", err)
			}
			if left := len(s.visible()) == 2; left != c.staged {
				t.Errorf("the folder holds %q", s.visible())
			}
			if list := s.list(threadA); len(list.Assets) != 1 || list.Assets[0].Path != "/d/f" {
				t.Errorf("the list is %v", list)
			}
			must(t, RemoveStaged(s.workspace, recorded))
			must(t, RemoveStaged(s.workspace, recorded)) // it may be done twice
			s.wantFiles("/d/f")
			want := "old"
			if c.done {
				want = string(make([]byte, 1<<20))
			}
			s.wantContent(want, "d", "f")
		})
	}
}
