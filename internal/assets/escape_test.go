package assets

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// The daemon never follows a link, wherever in the assets it stands and
// wherever it leads.
func TestLinksLeadNowhere(t *testing.T) {
	for _, place := range []string{"outside the workspace", "inside the workspace"} {
		for _, c := range []struct {
			name   string
			plant  func(s *scene, to string) // puts a link to the folder or its file
			target string                    // path that goes through it
		}{
			{"the last component", func(s *scene, to string) { link(s, filepath.Join(to, "file"), "f") }, "/f"},
			{"a parent", func(s *scene, to string) { link(s, to, "d") }, "/d/file"},
			{"a new file under a parent", func(s *scene, to string) { link(s, to, "d") }, "/d/new"},
			{"a folder under a parent", func(s *scene, to string) { link(s, to, "d") }, "/d/new/er/file"},
			{"dangling", func(s *scene, to string) { link(s, filepath.Join(to, "none"), "f") }, "/f"},
			{"a dangling parent", func(s *scene, to string) { link(s, filepath.Join(to, "none"), "d") }, "/d/file"},
			{"a chain", func(s *scene, to string) { link(s, to, "end"); link(s, s.assets("end"), "d") }, "/d/file"},
			{"a relative link", func(s *scene, to string) {
				rel, err := filepath.Rel(s.assets(), to)
				must(s.t, err)
				link(s, rel, "d")
			}, "/d/file"},
			{"the assets folder itself", func(s *scene, to string) {
				must(s.t, os.RemoveAll(s.assets()))
				must(s.t, os.Symlink(to, s.assets()))
			}, "/file"},
			{"the private folder itself", func(s *scene, to string) {
				must(s.t, os.RemoveAll(filepath.Dir(s.assets())))
				must(s.t, os.Mkdir(filepath.Join(to, "assets"), 0o700))
				must(s.t, os.Symlink(to, filepath.Dir(s.assets())))
			}, "/file"},
		} {
			t.Run(c.name+" "+place, func(t *testing.T) {
				s := newScene(t)
				s.write("x", "plain") // makes the folder
				to := t.TempDir()
				if place == "inside the workspace" {
					to = filepath.Join(s.workspace, "src")
					must(t, os.Mkdir(to, 0o700))
				}
				must(t, os.WriteFile(filepath.Join(to, "file"), []byte("secret"), 0o600))
				c.plant(s, to)
				before := tree(t, to)

				s.put(s.uploadTicket(threadA, c.target, 4), []byte("evil")).expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
				if _, err := s.m.CreateDownload(t.Context(), anyone, threadA, c.target); err == nil {
					t.Error("a download through the link")
				}
				if list, err := s.m.List(t.Context(), anyone, threadA); err == nil {
					for _, a := range list.Assets {
						if a.Path != "/plain" {
							t.Errorf("%s is listed", a.Path)
						}
					}
				} else {
					wantCode(t, err, fault.AssetListFailed, "path")
				}
				if after := tree(t, to); after != before {
					t.Errorf("behind the link there is\n%s\nand was\n%s", after, before)
				}
			})
		}
	}
}

func link(s *scene, to, name string) {
	s.t.Helper()
	must(s.t, os.Symlink(to, s.assets(name)))
}

// tree describes all that is in a folder.
func tree(t testing.TB, dir string) string {
	t.Helper()
	all := ""
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all += path + " " + e.Type().String()
		if e.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all += " " + string(data)
		}
		all += "\n"
		return nil
	}))
	return all
}

func TestAFIFONeverBlocks(t *testing.T) {
	s := newScene(t)
	s.write("x", "f")
	ticket := s.downloadTicket(threadA, "/f")
	must(t, os.Remove(s.assets("f")))
	makeFIFO(t, s.assets("f"))
	if _, err := os.Lstat(s.assets("f")); err != nil {
		t.Skip("no FIFOs here")
	}
	s.get(ticket).expect(t, http.StatusNotFound, fault.AssetReadFailed)
	_, err := s.m.CreateDownload(t.Context(), anyone, threadA, "/f")
	wantCode(t, err, fault.AssetNotFile, "path")
	s.put(s.uploadTicket(threadA, "/f", 1), []byte("1")).expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
	s.put(s.uploadTicket(threadA, "/f/g", 1), []byte("1")).expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
}

// The target's folder is moved away and a link to the user's sources takes its
// place while the body is on its way.
func TestAFolderThatIsMovedDuringAnUploadGetsNoFile(t *testing.T) {
	for name, swap := range map[string]func(s *scene, src string) error{
		"replaced by a link":              func(s *scene, src string) error { return os.Symlink(src, s.assets("d")) },
		"replaced by another folder":      func(s *scene, _ string) error { return os.Mkdir(s.assets("d"), 0o700) },
		"gone":                            func(*scene, string) error { return nil },
		"the sources renamed to its name": func(s *scene, src string) error { return os.Rename(src, s.assets("d")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			src := filepath.Join(s.workspace, "src")
			must(t, os.Mkdir(src, 0o700))
			conn := s.beginPut(s.uploadTicket(threadA, "/d/f", 2), 2, "a")
			away := filepath.Join(s.workspace, "away")
			must(t, os.Rename(s.assets("d"), away))
			must(t, swap(s, src))
			_, err := conn.Write([]byte("b"))
			must(t, err)
			readAnswer(t, conn).expect(t, http.StatusBadRequest, fault.AssetUploadFailed)
			for _, dir := range []string{src, away, s.assets("d")} {
				if entries, _ := os.ReadDir(dir); len(entries) != 0 {
					t.Errorf("%s holds %v", dir, entries)
				}
			}
		})
	}
}

// While another goroutine keeps swapping the target's folder with a link, each
// of many uploads fails or lands in the real folder.
func TestUploadsNeverLeaveTheAssetsUnderASwapRace(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 500
	}
	for _, place := range []string{"outside the workspace", "inside the workspace"} {
		t.Run(place, func(t *testing.T) {
			s := newScene(t)
			sources := t.TempDir()
			if place == "inside the workspace" {
				sources = filepath.Join(s.workspace, "src")
				must(t, os.Mkdir(sources, 0o700))
			}
			real, aside, linked := s.assets("d"), s.assets("aside"), s.assets("link")
			must(t, os.MkdirAll(real, 0o700))
			must(t, os.Symlink(sources, linked))
			must(t, os.WriteFile(filepath.Join(sources, "read"), []byte("secret"), 0o600))

			stop := make(chan struct{})
			var swapper sync.WaitGroup
			swapper.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					// Errors are part of the game: uploads make the folder too.
					_ = os.Rename(real, aside)
					_ = os.Rename(linked, real)
					_ = os.Rename(real, linked)
					if os.Rename(aside, real) != nil {
						_ = os.RemoveAll(aside)
					}
				}
			})
			worked, refused, listed := 0, 0, 0
			for i := range rounds {
				if s.uploadDirectly("d", "f") == nil {
					worked++
				} else {
					refused++
				}
				if f, _, err := openAsset(s.workspace, []string{"d", "read"}); err == nil {
					f.Close()
					t.Fatal("a file behind the link was opened")
				}
				if i%10 != 0 {
					continue
				}
				if list, err := s.m.List(t.Context(), anyone, threadA); err == nil {
					for _, a := range list.Assets {
						if a.Name == "read" {
							t.Fatalf("%s is listed", a.Path)
						}
						listed++
					}
				}
			}
			close(stop)
			swapper.Wait()
			entries, err := os.ReadDir(sources)
			must(t, err)
			if len(entries) != 1 {
				t.Errorf("the sources hold %v", entries)
			}
			t.Logf("%d uploads worked, %d were refused, %d entries were listed", worked, refused, listed)
		})
	}
}

// uploadDirectly stores a file without the network.
func (s *scene) uploadDirectly(segments ...string) error {
	ticket := s.uploadTicket(threadA, publicPath(segments), 0)
	t, err := s.m.redeem(upload, ticket.UploadID, ticket.Token)
	must(s.t, err)
	defer t.finish()
	_, err = t.store(http.NoBody)
	select {
	case <-s.threads.begun:
	default:
	}
	return err
}
