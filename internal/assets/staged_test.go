package assets

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// printing are threads whose recorded names are printed.
type printing struct{ *fakeThreads }

func (p printing) Stage(_ context.Context, id, name string) error {
	fmt.Print(name)
	return p.fakeThreads.Stage(context.Background(), id, name)
}

// noDeadlines is a connection that takes deadlines and has none.
type noDeadlines struct{ http.ResponseWriter }

func (noDeadlines) SetReadDeadline(time.Time) error  { return nil }
func (noDeadlines) SetWriteDeadline(time.Time) error { return nil }

func TestRemoveStagedRemovesNothingElse(t *testing.T) {
	s := newScene(t)
	s.write("x", "plain")
	s.write("x", ".pedelec-dir", "inner")
	s.write("x", "real", ".pedelec-upl_2")
	src := filepath.Join(s.workspace, "src")
	must(t, os.Mkdir(src, 0o700))
	must(t, os.WriteFile(filepath.Join(src, ".pedelec-upl_3"), []byte("x"), 0o600))
	must(t, os.Symlink(src, s.assets("linked")))
	must(t, os.Symlink(s.assets("plain"), s.assets(".pedelec-link")))
	before := tree(t, s.workspace)
	const root = ".pedelec-runtime/assets"
	for _, name := range []string{
		"",
		"src/.pedelec-upl_3",
		".pedelec-runtime",
		root,
		root + "/",
		root + "/plain",
		root + "/real",
		root + "/.pedelec-dir",
		root + "/.pedelec-link",
		root + "/linked/.pedelec-upl_3",
		root + "/../../src/.pedelec-upl_3",
		root + "/real/../../../src/.pedelec-upl_3",
		root + "x/.pedelec-upl_3",
		"/" + root + "/real/.pedelec-upl_2",
		`.pedelec-runtime\assets\real\.pedelec-upl_2`,
	} {
		if err := RemoveStaged(s.workspace, name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	if after := tree(t, s.workspace); after != before {
		t.Errorf("there is\n%s\nand was\n%s", after, before)
	}
	must(t, RemoveStaged(s.workspace, root+"/none/.pedelec-upl_9"))
	must(t, RemoveStaged(s.workspace, root+"/.pedelec-upl_9"))
	must(t, RemoveStaged(filepath.Join(s.workspace, "gone"), root+"/.pedelec-upl_9"))
	must(t, RemoveStaged(s.workspace, root+"/real/.pedelec-upl_2"))
	if fileExists(s.assets("real", ".pedelec-upl_2")) {
		t.Error("the temporary file is still there")
	}
}
