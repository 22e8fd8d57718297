package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// salvageThreads is enough for a tree with branches below its root.
const salvageThreads = 5000

// treePage is a page of a bucket's tree, and the keys that lie below it.
type treePage struct {
	number     uint64
	depth      int // 0 = the root
	branch     bool
	from, till string // till "" = the end
}

func (p treePage) holds(id string) bool { return id >= p.from && (p.till == "" || id < p.till) }

// treeOf lists the pages of a bucket in a closed database, by depth and key.
func treeOf(t *testing.T, path string, bucket []byte) (pages []treePage, pageSize int64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	must(t, err)
	defer db.Close()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	must(t, db.View(func(tx *bolt.Tx) error {
		b := branchesOf(&opening{file: file}, tx)
		pageSize = b.pageSize
		var walk func(p treePage)
		walk = func(p treePage) {
			entries, err := b.read(p.number)
			p.branch = err == nil
			pages = append(pages, p)
			for i, e := range entries {
				child := treePage{number: e.child, depth: p.depth + 1, from: string(e.key), till: p.till}
				if i+1 < len(entries) {
					child.till = string(entries[i+1].key)
				}
				walk(child)
			}
		}
		walk(treePage{number: uint64(tx.Bucket(bucket).Root())})
		return nil
	}))
	return pages, pageSize
}

// zero overwrites pages of a closed database.
func zero(t *testing.T, path string, pageSize int64, pages ...treePage) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	for _, p := range pages {
		_, err := f.WriteAt(make([]byte, pageSize), int64(p.number)*pageSize)
		must(t, err)
	}
}

// copyOf copies a file for one test.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	whole, err := os.ReadFile(path)
	must(t, err)
	to := testPath(t)
	must(t, os.WriteFile(to, whole, 0o600))
	return to
}

// TestAListGoesOnBehindADamagedPage: a page of the tree that cannot be read once
// made every list, and with it retention and the settling of threads, fail.
func TestAListGoesOnBehindADamagedPage(t *testing.T) {
	master := testPath(t)
	s := openAt(t, master)
	fill(t, s, salvageThreads, 1)
	fillLedger(t, s.KV(Origins), salvageThreads)
	must(t, s.Close())

	leaves := func(pages []treePage) []treePage {
		return slices.DeleteFunc(slices.Clone(pages), func(p treePage) bool { return p.branch })
	}
	branches := func(pages []treePage) []treePage {
		return slices.DeleteFunc(slices.Clone(pages), func(p treePage) bool { return !p.branch || p.depth == 0 })
	}
	for _, bucket := range [][]byte{bucketThreads, bucketLive, bucketOrigins} {
		pages, pageSize := treeOf(t, master, bucket)
		l, b := leaves(pages), branches(pages)
		tests := map[string][]treePage{
			"one leaf":              l[3:4],
			"neighbours":            l[3:6],
			"leaves here and there": {l[1], l[3], l[4], l[len(l)-2]},
			"all leaves between":    l[1 : len(l)-1],
			"the last leaf but one": l[len(l)-2 : len(l)-1],
		}
		if len(b) > 2 {
			tests["a branch"] = b[1:2]
			tests["a branch and a leaf before it"] = []treePage{l[1], b[1]}
		} else if bytes.Equal(bucket, bucketThreads) {
			t.Fatalf("%d branches, too few to show anything", len(b))
		}
		for name, damaged := range tests {
			t.Run(string(bucket)+"/"+name, func(t *testing.T) {
				path := copyOf(t, master)
				zero(t, path, pageSize, damaged...)
				lost := func(id string) bool {
					return slices.ContainsFunc(damaged, func(p treePage) bool { return p.holds(id) })
				}
				checkLists(t, path, string(bucket), lost)
			})
		}
	}
}

// fillLedger puts many values at once.
func fillLedger(t *testing.T, l *Ledger, n int) {
	t.Helper()
	var together []*item
	for i := range n {
		it := l.item(itemPut, fmt.Sprintf("https://%05d.example", i), bytes.Repeat([]byte{1}, 40))
		must(t, l.s.queue.push(it))
		if together = append(together, it); len(together) == 500 || i == n-1 {
			for _, it := range together {
				must(t, <-it.done)
				it.free()
			}
			together = nil
		}
	}
}

// checkLists compares all that is listed with what is not lost of a bucket.
func checkLists(t *testing.T, path, bucket string, lost func(id string) bool) {
	t.Helper()
	var log bytes.Buffer
	s := openAt(t, path, func(s *Store) { s.Log = zerolog.New(&log); s.InstanceID = "instance-2" })
	if s.Damage() != nil {
		t.Fatalf("set aside at the start: %+v", s.Damage())
	}
	var threads, live, ended, origins []string
	for i := range salvageThreads {
		id, origin := fmt.Sprintf("t-%05d", i), fmt.Sprintf("https://%05d.example", i)
		recordLost := bucket == string(bucketThreads) && lost(id)
		if !recordLost {
			threads = append(threads, id)
			if i%3 == 0 {
				ended = append(ended, id)
			}
		}
		if i%3 != 0 && (bucket != string(bucketLive) || !lost(id)) {
			live = append(live, id)
		}
		if bucket != string(bucketOrigins) || !lost(origin) {
			origins = append(origins, origin)
		}
	}
	if bucket == string(bucketThreads) && len(threads) == salvageThreads {
		t.Fatal("nothing is lost")
	}

	var listed []string
	for query := (thread.ListQuery{Limit: 300}); ; {
		page, err := s.List(query)
		must(t, err)
		for _, row := range page.Threads {
			listed = append(listed, row.ThreadID)
		}
		if query.After = page.Next; page.Next == "" {
			break
		}
	}
	wantEqual(t, listed, threads)
	ids, err := s.Live("", 2*salvageThreads)
	must(t, err)
	wantEqual(t, ids, live)
	rows, err := s.EndedOldestFirst(2 * salvageThreads)
	must(t, err)
	var oldest []string
	for _, row := range rows {
		oldest = append(oldest, row.ThreadID)
	}
	slices.Sort(oldest)
	wantEqual(t, oldest, ended)
	_, err = s.Unsettled("", 2*salvageThreads)
	must(t, err)
	all, err := s.KV(Origins).All()
	must(t, err)
	wantEqual(t, len(all), len(origins))

	wantCode(t, s.Healthy(), fault.StorageFailed)
	if lines := strings.Count(log.String(), "A part of the database cannot be read"); lines != 1 {
		t.Errorf("it is told %d times: %s", lines, log.String())
	}
}

// TestOneKeyThatIsTooLargeHidesNothing: a key in which a bit had flipped upward was
// taken for how far a list had come, and all that lay between was left out.
func TestOneKeyThatIsTooLargeHidesNothing(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	fill(t, s, salvageThreads, 1)
	must(t, s.Close())
	pages, pageSize := treeOf(t, path, bucketLive)
	whole, err := os.ReadFile(path)
	must(t, err)
	leaves := slices.DeleteFunc(pages, func(p treePage) bool { return p.branch })
	for name, place := range map[string]func(keys []string) string{
		"the first of a page": func(keys []string) string { return keys[0] },
		"within a page":       func(keys []string) string { return keys[len(keys)/2] },
		"the last of a page":  func(keys []string) string { return keys[len(keys)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := slices.Clone(whole)
			leaf := leaves[3]
			page := spoilt[int64(leaf.number)*pageSize:][:pageSize]
			var keys []string
			for i := range salvageThreads {
				if id := fmt.Sprintf("t-%05d", i); i%3 != 0 && leaf.holds(id) {
					keys = append(keys, id)
				}
			}
			key := place(keys)
			at := bytes.Index(page, []byte(key))
			if at < 0 {
				t.Fatalf("%s is not on its page", key)
			}
			page[at] = 'u' // t is 0x74
			path := testPath(t)
			must(t, os.WriteFile(path, spoilt, 0o600))
			s := openAt(t, path)
			ids, err := s.Live("", 2*salvageThreads)
			must(t, err)
			var want []string
			for i := range salvageThreads {
				if id := fmt.Sprintf("t-%05d", i); i%3 != 0 && id != key {
					want = append(want, id)
				}
			}
			odd := 0
			got := slices.DeleteFunc(ids, func(id string) bool {
				if id[0] == 'u' {
					odd++
				}
				return id[0] == 'u'
			})
			wantEqual(t, got, want)
			wantEqual(t, odd, 1)
			wantCode(t, s.Healthy(), fault.StorageFailed)
		})
	}
}

// TestADamagedRootIsADegradedStateThatIsTold: where nothing tells what lies behind,
// a list fails and says so, and what else the store does goes on.
func TestADamagedRootIsADegradedStateThatIsTold(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	fill(t, s, salvageThreads, 1)
	// A checkpoint of all that is written, so that the pages are where they stay.
	must(t, s.Close())
	pages, pageSize := treeOf(t, path, bucketLive)
	s = openAt(t, path)
	zero(t, path, pageSize, pages[0]) // while it runs
	_, err := s.Live("", 10)
	wantCode(t, err, fault.StorageFailed)
	wantCode(t, s.Healthy(), fault.StorageFailed)
	page, err := s.List(thread.ListQuery{Limit: 10})
	must(t, err)
	wantEqual(t, len(page.Threads), 10)
	_, err = s.Load("t-00001")
	must(t, err)
	must(t, s.KV(Origins).Put("https://app.example", []byte{1}))
}

func TestATopmostLeafWithLargeValuesIsSound(t *testing.T) {
	path := testPath(t)
	must(t, openAt(t, path).Close())
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		for _, key := range []string{"a", "b"} { // too few to be parted
			if err := tx.Bucket(bucketJournal).Put([]byte(key), make([]byte, maxPageBytes)); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, db.Close())
	if d := openAt(t, path).Damage(); d != nil {
		t.Fatalf("damage is %+v", d)
	}
}

// TestDamageAtRandomPagesNeverEndsTheProcess spoils pages of a whole database, in
// many ways: the store opens, or moves the file aside as it is; whatever it is asked
// then, it answers or says that it cannot; and it takes new threads, or is unhealthy.
func TestDamageAtRandomPagesNeverEndsTheProcess(t *testing.T) {
	const threads = 1500
	master := testPath(t)
	s := openAt(t, master)
	fill(t, s, threads, 1)
	for i := range 20 {
		id := fmt.Sprintf("u-%05d", i)
		for r := uint64(1); r <= 10; r++ {
			must(t, s.Commit(modelCommit(id, r, 500)))
		}
	}
	must(t, s.Close())
	used := usedBytes(t, master)
	whole, err := os.ReadFile(master)
	must(t, err)
	const pageSize = 4096
	const seeds = 50
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			path := testPath(t)
			must(t, os.WriteFile(path, whole[:used], 0o600))
			rng := rand.New(rand.NewPCG(seed, 1))
			spoilPages(t, path, rng, used/pageSize, pageSize)
			damaged, err := os.ReadFile(path)
			must(t, err)
			s := openAt(t, path, func(s *Store) { s.InstanceID = "instance-2" })
			if d := s.Damage(); d != nil {
				kept, err := os.ReadFile(d.MovedTo)
				must(t, err)
				if !bytes.Equal(kept, damaged) {
					t.Error("the file that was moved aside is not as it was")
				}
			}
			askEverything(t, s)
			for range 20 { // the place of one may be on a damaged page
				err := s.Commit(modelCommit(fmt.Sprintf("t-%05d-new", rng.IntN(threads)), 1, 0))
				if err == nil {
					return
				}
				wantCode(t, err, fault.StorageFailed)
			}
			// A page through which every change leads.
			wantCode(t, s.Healthy(), fault.StorageFailed)
		})
	}
}

// spoilPages does one kind of damage to a few pages behind the meta pages.
func spoilPages(t *testing.T, path string, rng *rand.Rand, pages int64, pageSize int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	for range 1 + rng.IntN(4) {
		at := (2 + rng.Int64N(pages-2)) * pageSize
		page := make([]byte, pageSize)
		_, err := f.ReadAt(page, at)
		must(t, err)
		switch rng.IntN(4) {
		case 0:
			clear(page)
		case 1: // a few bits
			for range 1 + rng.IntN(8) {
				page[rng.IntN(len(page))] ^= 1 << rng.IntN(8)
			}
		case 2: // noise behind the header, so that it looks well
			for i := pageHeaderBytes; i+8 <= len(page); i += 8 {
				binary.NativeEndian.PutUint64(page[i:], rng.Uint64())
			}
		default: // another page's content, as after a write that went astray
			_, err := f.ReadAt(page, (2+rng.Int64N(pages-2))*pageSize)
			must(t, err)
		}
		_, err = f.WriteAt(page, at)
		must(t, err)
	}
}

// askEverything reads all there is. Answers may lack what is damaged.
func askEverything(t *testing.T, s *Store) {
	t.Helper()
	check := func(what string, err error) {
		if err != nil && !fault.Is(err, fault.StorageFailed) && !fault.Is(err, fault.ThreadNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	page, err := s.List(thread.ListQuery{Limit: thread.MaxListLimit})
	check("list", err)
	_, err = s.Live("", 10_000)
	check("live", err)
	_, err = s.Unsettled("", 10_000)
	check("unsettled", err)
	_, err = s.EndedOldestFirst(10_000)
	check("ended", err)
	for _, ledger := range []LedgerName{Origins, Processes} {
		_, err = s.KV(ledger).All()
		check("ledger", err)
	}
	ids := []string{}
	for _, row := range page.Threads {
		ids = append(ids, row.ThreadID)
	}
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("u-%05d", i))
	}
	for _, id := range ids {
		_, err := s.Load(id)
		check("load", err)
		_, err = s.Events(id, 0, 1<<62, 1<<20, 1<<30)
		check("events", err)
	}
	_, err = s.Size()
	check("size", err)
}

// An entry in the middle of a topmost page that leads out of it was not noticed at the
// start, and every change of the table failed from then on.
func TestATopmostPageWithABadEntryIsNoticedAtTheStart(t *testing.T) {
	for name, threads := range map[string]int{"a branch": salvageThreads, "a leaf": 20} {
		t.Run(name, func(t *testing.T) {
			path := testPath(t)
			s := openAt(t, path)
			fill(t, s, threads, 1)
			must(t, s.Close())
			pages, pageSize := treeOf(t, path, bucketThreads)
			top := pages[0]
			wantEqual(t, top.branch, name == "a branch")
			length := int64(4) // of the key, in an entry of a branch
			if !top.branch {
				length = 8
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			entry := int64(top.number)*pageSize + pageHeaderBytes + branchEntryBytes
			_, err = f.WriteAt([]byte{0xff, 0xff, 0xff, 0x7f}, entry+length)
			must(t, err)

			s = openAt(t, path)
			if s.Damage() == nil {
				t.Error("the damage is not noticed")
			}
			must(t, s.Commit(modelCommit("fresh", 1, 0)))
		})
	}
}
