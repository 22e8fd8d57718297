package assets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func paths(l Listing) []string {
	var all []string
	for _, a := range l.Assets {
		all = append(all, a.Path)
	}
	return all
}

func (s *scene) list(threadID string) Listing {
	s.t.Helper()
	l, err := s.m.List(s.t.Context(), callerOf(threadID), threadID)
	must(s.t, err)
	return l
}

func TestListOrderAndFields(t *testing.T) {
	s := newScene(t)
	newer, older := time.UnixMilli(2_000_000_000_500), time.UnixMilli(1_000_000_000_000)
	for path, at := range map[string]time.Time{
		"z/new.txt":  newer,
		"b/same.txt": older,
		"a/same.txt": older,
		"c/B.txt":    older,
		"old.txt":    time.Unix(-5000, 0),
		".env":       older.Add(time.Microsecond), // the same millisecond
	} {
		file := s.write(path, filepath.FromSlash(path))
		must(t, os.Chtimes(file, at, at))
	}
	got := s.list(threadA)
	want := []string{"/z/new.txt", "/.env", "/c/B.txt", "/a/same.txt", "/b/same.txt", "/old.txt"}
	if diff := cmp.Diff(want, paths(got)); diff != "" {
		t.Error(diff)
	}
	if first := got.Assets[0]; first.Name != "new.txt" || first.SizeBytes != 9 || !first.ModifiedAt.Equal(newer) || got.Truncated {
		t.Errorf("got %+v, truncated %t", first, got.Truncated)
	}
	if last := got.Assets[5]; last.ModifiedAt.UnixMilli() != 0 {
		t.Errorf("before 1970: %v", last.ModifiedAt)
	}
}

func TestListLeavesOut(t *testing.T) {
	s := newScene(t)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600))
	s.write("x", "good")
	s.write("x", ".hidden", "also-good")
	s.write("x", ".pedelec-upl_1")
	s.write("x", "d", ".pedelec-x", "inner")
	s.write("x", "control\x01")
	s.write("x", `back\slash`)
	s.write("x", "bad\xff")
	s.write("x", "new\nline", "inner")
	must(t, os.Mkdir(s.assets("empty"), 0o700))
	must(t, os.Symlink(s.assets("good"), s.assets("link")))
	must(t, os.Symlink(s.assets("none"), s.assets("dangling")))
	must(t, os.Symlink(outside, s.assets("outside")))
	must(t, os.Symlink(s.assets(".hidden"), s.assets("linked-dir")))
	makeFIFO(t, s.assets("fifo"))
	if diff := cmp.Diff([]string{"/.hidden/also-good", "/good"}, sorted(paths(s.list(threadA)))); diff != "" {
		t.Error(diff)
	}
}

func TestListWithoutAFolder(t *testing.T) {
	s := newScene(t)
	if got := s.list(threadA); len(got.Assets) != 0 || got.Truncated {
		t.Errorf("got %+v", got)
	}
	if entries, _ := os.ReadDir(s.workspace); len(entries) != 0 {
		t.Errorf("the workspace holds %v now", entries)
	}
}

func TestListErrors(t *testing.T) {
	s := newScene(t)
	list := func(id string, c thread.Caller) error {
		_, err := s.m.List(t.Context(), c, id)
		return err
	}
	wantCode(t, list("unknown", anyone), fault.ThreadNotFound, "threadId")
	wantCode(t, list(threadB, anyone), fault.ThreadAccessDenied, "threadId")
	for _, status := range []thread.Status{thread.Stopping, thread.Ended} {
		s.threads.set(threadA, func(i *Info) { i.Status = status })
		wantCode(t, list(threadA, anyone), fault.ThreadEnded, "threadId")
	}
	s.threads.set(threadA, func(i *Info) { i.Status = thread.Running })
	must(t, os.Mkdir(filepath.Dir(s.assets()), 0o700))
	must(t, os.WriteFile(s.assets(), nil, 0o600))
	wantCode(t, list(threadA, anyone), fault.AssetListFailed, "path")

	must(t, os.Remove(s.assets()))
	s.write("x", "f")
	left, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.m.List(left, anyone, threadA)
	wantCode(t, err, fault.AssetListFailed, "path")
}

func TestListOfAnUnreadableFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	s := newScene(t)
	s.write("x", "d", "f")
	must(t, os.Chmod(s.assets("d"), 0))
	t.Cleanup(func() { _ = os.Chmod(s.assets("d"), 0o700) })
	_, err := s.m.List(t.Context(), anyone, threadA)
	wantCode(t, err, fault.AssetListFailed, "path")
	if got := fault.From(err).Details["path"]; got != "/d" {
		t.Errorf("path %v", got)
	}
}

// What does not fit one line loses its oldest entries.
func TestListIsCutToTheNewest(t *testing.T) {
	var l lister
	at := time.UnixMilli(1_700_000_000_000)
	for i := range 30_000 {
		l.seen++
		l.assets = append(l.assets, Asset{Name: fmt.Sprintf("%06d", i), Path: fmt.Sprintf("/%06d", i), ModifiedAt: at.Add(time.Duration(i) * time.Millisecond)})
	}
	got := l.listing()
	if !got.Truncated || len(got.Assets) == 0 || got.Assets[0].Name != "029999" {
		t.Fatalf("%d entries, truncated %t", len(got.Assets), got.Truncated)
	}
	size := 0
	for _, a := range got.Assets {
		size += len(fmt.Sprintf(`{"name":%q,"path":%q,"sizeBytes":%d,"modifiedAt":%d},`, a.Name, a.Path, a.SizeBytes, a.ModifiedAt.UnixMilli()))
	}
	if size > maxListBytes || size < maxListBytes/2 {
		t.Errorf("the list takes %d bytes", size)
	}
}

func TestListOfMoreFilesThanAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 40,000 files")
	}
	s := newScene(t)
	newest := s.write("", "newest")
	must(t, os.Chtimes(newest, time.Time{}, time.Now().Add(time.Hour)))
	for i := range 2 * maxKept {
		must(t, os.WriteFile(s.assets(fmt.Sprintf("%d", i)), nil, 0o600))
	}
	got := s.list(threadA)
	if !got.Truncated || got.Assets[0].Path != "/newest" || len(got.Assets) >= maxKept {
		t.Errorf("%d entries, the first %q, truncated %t", len(got.Assets), got.Assets[0].Path, got.Truncated)
	}
}

func TestListWhileFilesComeAndGo(t *testing.T) {
	s := newScene(t)
	s.write("x", "stays")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			dir := s.assets(fmt.Sprintf("d%d", i%3))
			_ = os.MkdirAll(dir, 0o700)
			_ = os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)
			_ = os.RemoveAll(dir)
		}
	}()
	for range 300 {
		if got := s.list(threadA); !strings.Contains(strings.Join(paths(got), " "), "/stays") {
			t.Fatalf("list %v", paths(got))
		}
	}
	close(stop)
	<-done
}

func BenchmarkList10000Files(b *testing.B) {
	s := newScene(b)
	for i := range 10_000 {
		s.write("x", fmt.Sprintf("folder-%d", i%100), fmt.Sprintf("file-%d.txt", i))
	}
	b.ResetTimer()
	for b.Loop() {
		if got := s.list(threadA); len(got.Assets) != 10_000 && !got.Truncated {
			b.Fatalf("%d files", len(got.Assets))
		}
	}
}
