package ipc

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func sampleRuntimeFile() RuntimeFile {
	f := NewRuntimeFile(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4321})
	f.HTTPEndpoint, f.Token, f.InstanceID = "127.0.0.1:4322", testToken, "instance"
	f.StartedAt, f.Version = testTime, "1.2.3"
	return f
}

func TestRuntimeFilesAreWrittenReadAndRemoved(t *testing.T) {
	home := t.TempDir()
	f := sampleRuntimeFile()
	if err := f.Write(home); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRuntimeFile(home)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, got); diff != "" {
		t.Errorf("read back: %s", diff)
	}
	for _, name := range []string{RuntimeFileName, AgentRuntimeFileName} {
		info, err := os.Stat(filepath.Join(home, name))
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if err := f.Remove(home); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) != 0 {
		t.Errorf("left in the home: %v, %v", entries, err)
	}
	if err := f.Remove(home); err != nil {
		t.Errorf("removing again: %v", err)
	}
}

func TestAgentRuntimeFileHoldsTheOldFieldsAlone(t *testing.T) {
	home := t.TempDir()
	if err := sampleRuntimeFile().Write(home); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(home, AgentRuntimeFileName))
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	decode(t, string(data), &members)
	if len(members) != 5 || strings.Contains(string(data), testToken) {
		t.Errorf("agent-runtime.json is %s", data)
	}
	for _, name := range []string{"protocol", "host", "port", "endpoint", "pid"} {
		if members[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestRuntimeFilesOfASuccessorStay(t *testing.T) {
	home := t.TempDir()
	mine, successor := sampleRuntimeFile(), sampleRuntimeFile()
	successor.Port, successor.Endpoint = 5555, "127.0.0.1:5555"
	if err := successor.Write(home); err != nil {
		t.Fatal(err)
	}
	if err := mine.Remove(home); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRuntimeFile(home); err != nil {
		t.Errorf("the successor's file is gone: %v", err)
	}
	if err := RemoveStaleRuntimeFiles(home); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRuntimeFile(home); !fault.Is(err, fault.CoreRuntimeUnavailable) {
		t.Errorf("after removing stale files: %v", err)
	}
}

func TestWhatAKilledWriterLeftOfARuntimeFileIsRemoved(t *testing.T) {
	home := t.TempDir()
	left := []string{RuntimeFileName, RuntimeFileName + ".tmp123", AgentRuntimeFileName, AgentRuntimeFileName + ".tmp9"}
	kept := []string{"core.db", "my-" + RuntimeFileName, RuntimeFileName + ".bak"}
	for _, name := range slices.Concat(left, kept) {
		if err := os.WriteFile(filepath.Join(home, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveStaleRuntimeFiles(home); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if slices.Sort(kept); !slices.Equal(there, kept) {
		t.Errorf("left are %v, want %v", there, kept)
	}
}

func TestFailedWriteLeavesTheOldRuntimeFileAndNoOther(t *testing.T) {
	home := t.TempDir()
	old := sampleRuntimeFile()
	if err := old.Write(home); err != nil {
		t.Fatal(err)
	}
	if err := fault.Arm("ipc.runtimefile.rename=error"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fault.Arm("") }()
	next := old
	next.Version = "2.0.0"
	if err := next.Write(home); err == nil {
		t.Fatal("the write did not fail")
	}
	if got, err := ReadRuntimeFile(home); err != nil || got.Version != old.Version {
		t.Errorf("%+v, %v", got, err)
	}
	if entries, _ := os.ReadDir(home); len(entries) != 2 {
		t.Errorf("left in the home: %v", entries)
	}
}

func TestUnusableRuntimeFilesReadAsNotRunning(t *testing.T) {
	good := `"protocol":"pedelec-core-ipc-v1","host":"127.0.0.1","port":1,"endpoint":"127.0.0.1:1","pid":1`
	for name, content := range map[string]string{
		"empty":            "",
		"half a file":      `{` + good,
		"other protocol":   `{"protocol":"other","host":"127.0.0.1","port":1,"endpoint":"127.0.0.1:1","pid":1}`,
		"other host":       `{"protocol":"pedelec-core-ipc-v1","host":"localhost","port":1,"endpoint":"localhost:1","pid":1}`,
		"foreign endpoint": `{"protocol":"pedelec-core-ipc-v1","host":"127.0.0.1","port":1,"endpoint":"10.0.0.1:1","pid":1}`,
		"port too large":   `{"protocol":"pedelec-core-ipc-v1","host":"127.0.0.1","port":99999,"endpoint":"127.0.0.1:99999","pid":1}`,
		"port as a string": `{"protocol":"pedelec-core-ipc-v1","host":"127.0.0.1","port":"1","endpoint":"127.0.0.1:1","pid":1}`,
		"very large":       `{` + good + `,"x":"` + strings.Repeat("x", maxRuntimeFileBytes) + `"}`,
	} {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, RuntimeFileName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRuntimeFile(home); !fault.Is(err, fault.CoreRuntimeUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFolderNamedLikeALeftoverDoesNotStopAStart(t *testing.T) {
	home := t.TempDir()
	folder := filepath.Join(home, RuntimeFileName+temporarySuffix+"s")
	left := filepath.Join(home, RuntimeFileName+temporarySuffix+"123")
	for _, err := range []error{os.MkdirAll(filepath.Join(folder, "somebody's"), 0o700), os.WriteFile(left, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveStaleRuntimeFiles(home); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the leftover stays")
	}
}

func TestHomeComesFromFlagThenEnvironmentThenTheUser(t *testing.T) {
	base := t.TempDir()
	t.Setenv("HOME", base)
	t.Setenv("USERPROFILE", base)
	t.Setenv(HomeEnv, "")
	check := func(flag, want string) {
		t.Helper()
		if got, err := Home(flag); err != nil || got != want {
			t.Errorf("Home(%q) = %q, %v, want %q", flag, got, err, want)
		}
	}
	check("", filepath.Join(base, ".pedelec"))
	t.Setenv(HomeEnv, filepath.Join(base, "env"))
	check("", filepath.Join(base, "env"))
	check(filepath.Join(base, "flag"), filepath.Join(base, "flag"))
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	check("relative", filepath.Join(wd, "relative"))
}

func TestHomeWithoutHOMEAsksTheUserDatabase(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("USERPROFILE", "")
	t.Setenv(HomeEnv, "")
	got, err := Home("")
	if err == nil && !filepath.IsAbs(got) {
		t.Errorf("Home = %q, which is not absolute", got)
	}
}

func FuzzParseRuntimeFile(f *testing.F) {
	f.Add([]byte(`{"protocol":"pedelec-core-ipc-v1","host":"127.0.0.1","port":1,"endpoint":"127.0.0.1:1","pid":1,"startedAt":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseRuntimeFile(data)
		if err != nil {
			return
		}
		host, _, err := net.SplitHostPort(got.Endpoint)
		if err != nil || host != loopbackHost || got.Protocol != Protocol {
			t.Errorf("accepted %+v", got)
		}
		if got.StartedAt.Before(time.Time{}) {
			t.Errorf("accepted a start at %v", got.StartedAt)
		}
	})
}
