package store

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// misled returns the path of a database in whose tree of threads the child at a place
// of the topmost page is the one that page returns, and the number of its threads.
func misled(t *testing.T, place func(count int) int, page func(root uint64, children []uint64) uint64) (path string, threads int) {
	t.Helper()
	path = testPath(t)
	s := openAt(t, path)
	fill(t, s, salvageThreads, 1)
	must(t, s.Close())
	pages, pageSize := treeOf(t, path, bucketThreads)
	var children []uint64
	for _, p := range pages[1:] {
		if p.depth == 1 {
			children = append(children, p.number)
		}
	}
	if len(children) < 4 {
		t.Fatalf("the topmost page has %d children", len(children))
	}
	at := int64(pages[0].number)*pageSize + pageHeaderBytes + int64(place(len(children)))*branchEntryBytes + branchChildAt
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, page(pages[0].number, children)), at)
	must(t, errors.Join(err, f.Close()))
	return path, salvageThreads
}

// TestATreeThatLeadsInACircleIsMovedAside: bbolt would follow it at the start without
// end, and take memory for each step.
func TestATreeThatLeadsInACircleIsMovedAside(t *testing.T) {
	for name, place := range map[string]func(int) int{
		"first": func(int) int { return 0 },
		"last":  func(count int) int { return count - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := misled(t, place, func(root uint64, _ []uint64) uint64 { return root })
			s := openAt(t, path)
			if s.Damage() == nil {
				t.Error("nothing was noticed")
			}
			must(t, s.Commit(modelCommit("t", 1, 0)))
		})
	}
}

// TestATreeThatLeadsBackIsWalkedToItsEnd: a part of it is met twice.
func TestATreeThatLeadsBackIsWalkedToItsEnd(t *testing.T) {
	path, threads := misled(t, func(int) int { return 2 }, func(_ uint64, children []uint64) uint64 { return children[1] })
	s := openAt(t, path)
	q, listed := thread.ListQuery{Limit: thread.MaxListLimit}, 0
	for more := true; more; more = q.After != "" {
		page, err := s.List(q)
		if err != nil {
			wantCode(t, err, fault.StorageFailed)
			break
		}
		if listed += len(page.Threads); listed > threads {
			t.Fatalf("%d threads were listed of %d", listed, threads)
		}
		q.After = page.Next
	}
	if listed < threads/2 {
		t.Errorf("%d threads were listed of %d", listed, threads)
	}
	wantCode(t, s.Healthy(), fault.StorageFailed)
}

func TestKeysThatDoNotAscendEndAWalk(t *testing.T) {
	path, _ := misled(t, func(int) int { return 2 }, func(_ uint64, children []uint64) uint64 { return children[1] })
	s := openAt(t, path)
	err := guarded(s.opened.view, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketThreads).Cursor()
		for k, _ := c.First(); k != nil; {
			k, _ = advance(c, k)
		}
		return nil
	})
	if !errors.Is(err, errDamaged) {
		t.Errorf("the walk ended with %v", err)
	}
	must(t, os.RemoveAll(path+suffixCompact))
	err = s.view("store.compact", func(tx *bolt.Tx) error { return s.copyInto(path+suffixCompact, tx, &compaction{}) })
	wantCode(t, err, fault.StorageFailed)
}

// TestABranchWithMoreEntriesThanItHasRoomForIsDamage, and no trouble of the disk, which
// would keep the daemon from starting with a fresh file.
func TestABranchWithMoreEntriesThanItHasRoomForIsDamage(t *testing.T) {
	const pageSize = 4096
	b := branches{pageSize: pageSize, pages: 2}
	content := make([]byte, b.pages*pageSize)
	for page, count := range []uint16{1, 0xffff} { // the first one leads to the second
		p := content[page*pageSize:]
		binary.NativeEndian.PutUint64(p, uint64(page))
		binary.NativeEndian.PutUint16(p[pageFlagsAt:], branchFlag)
		binary.NativeEndian.PutUint16(p[pageCountAt:], count)
		binary.NativeEndian.PutUint64(p[pageHeaderBytes+branchChildAt:], uint64(page+1))
	}
	path := testPath(t)
	must(t, os.WriteFile(path, content, 0o600))
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	b.file = file
	if err := b.checkEnds(0); !errors.Is(err, errDamaged) {
		t.Errorf("the check ended with %v", err)
	}
}
