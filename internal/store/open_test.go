package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestADamagedFileIsMovedAsideAndAFreshOneStarted(t *testing.T) {
	// A whole file with enough in it that half of it hurts.
	path := testPath(t)
	s := openAt(t, path)
	for r := uint64(1); r <= 20; r++ {
		must(t, s.Commit(modelCommit("t", r, 20<<10)))
	}
	must(t, s.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	random := make([]byte, 64<<10)
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(random)

	tests := map[string][]byte{
		"empty":                    {},
		"one byte":                 whole[:1],
		"one page":                 whole[:4096],
		"only the meta pages":      whole[:8192],
		"half":                     whole[:usedBytes(t, path)/2],
		"last page missing":        whole[:usedBytes(t, path)-4096],
		"random bytes":             random,
		"zeros":                    make([]byte, 64<<10),
		"text":                     []byte(strings.Repeat("not a database\n", 1000)),
		"random after the metas":   append(bytes.Clone(whole[:8192]), random...),
		"random behind both metas": scrambled(whole, usedBytes(t, path)),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			path := testPath(t)
			must(t, os.WriteFile(path, content, 0o600))
			s := openAt(t, path)
			d := s.Damage()
			if d == nil || d.Reason == "" || !d.At.Equal(testTime) {
				t.Fatalf("damage is %+v", d)
			}
			kept, err := os.ReadFile(d.MovedTo)
			must(t, err)
			if !bytes.Equal(kept, content) {
				t.Fatal("the damaged file was changed")
			}
			wantEqual(t, s.WasUnclean(), true)
			must(t, s.Commit(modelCommit("t", 1, 0)))
			_, err = checkThread(s, "t")
			must(t, err)
			must(t, s.Healthy())
		})
	}
}

// usedBytes returns the part of the file that has pages.
func usedBytes(t *testing.T, path string) (size int64) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	must(t, err)
	defer db.Close()
	must(t, db.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	}))
	return size
}

// scrambled keeps the meta pages and overwrites all others.
func scrambled(whole []byte, used int64) []byte {
	b := bytes.Clone(whole)
	rng := rand.NewChaCha8([32]byte{9})
	_, _ = rng.Read(b[8192:used])
	return b
}

func TestDamageThatShowsLaterFailsThatReadAndIsReported(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	for _, id := range []string{"a", "b", "c"} {
		must(t, s.Commit(modelCommit(id, 1, 100)))
	}
	must(t, s.Close())
	// Spoil b's record, which no check at opening looks at.
	spoil(t, path, "b", []byte{valueVersion, 1, 2})

	s = openAt(t, path)
	must(t, s.Healthy())
	_, err := checkThread(s, "a")
	must(t, err)
	_, err = s.Load("b")
	wantCode(t, err, fault.StorageFailed)
	wantCode(t, s.Healthy(), fault.StorageFailed)
	wantCode(t, s.Commit(modelCommit("b", 2, 0)), fault.StorageFailed)
	_, err = checkThread(s, "c")
	must(t, err)
	must(t, s.Commit(modelCommit("c", 2, 0)))
	must(t, s.Delete("b"))
}

func TestAFileThatShrinksUnderTheStoreFailsReadsNotTheProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a mapped file cannot be cut everywhere")
	}
	for name, size := range map[string]int64{"to the meta pages": 8192, "to nothing": 0} {
		t.Run(name, func(t *testing.T) {
			path := testPath(t)
			s := openAt(t, path)
			for r := uint64(1); r <= 20; r++ {
				must(t, s.Commit(modelCommit("t", r, 20<<10)))
			}
			must(t, os.Truncate(path, size))
			for range 2 {
				_, err := s.Load("t")
				wantCode(t, err, fault.StorageFailed)
				wantCode(t, s.Healthy(), fault.StorageFailed)
				wantCode(t, s.Commit(modelCommit("t", 21, 0)), fault.StorageFailed)
			}
			must(t, s.Close()) // does not hang
			// The next start moves what is left aside.
			if s = openAt(t, path); s.Damage() == nil {
				t.Fatal("no damage")
			}
		})
	}
}

func TestANewerFileIsRefusedWithASentence(t *testing.T) {
	path := testPath(t)
	must(t, openAt(t, path, func(s *Store) { s.schema = 7 }).Close())
	s := New(path)
	err := s.Open()
	wantCode(t, err, fault.StorageFailed)
	if msg := fault.From(err).Message(); !strings.Contains(msg, "schema 7") || !strings.Contains(msg, "newer version") {
		t.Fatalf("message %q", msg)
	}
	if s.Damage() != nil {
		t.Fatal("a newer file counts as damaged")
	}
	must(t, openAt(t, path, func(s *Store) { s.schema = 7 }).Close()) // and is not locked or changed
}

// toSchema2 and toSchema3 stand for what later versions bring.
func withSchema3(second error) func(*Store) {
	return func(s *Store) {
		s.schema = 3
		s.migrations = []migration{
			{2, func(tx *bolt.Tx) error { return tx.Bucket(bucketOrigins).Put([]byte("two"), []byte("2")) }},
			{3, func(tx *bolt.Tx) error {
				if second != nil {
					return second
				}
				return tx.Bucket(bucketOrigins).Put([]byte("three"), tx.Bucket(bucketOrigins).Get([]byte("two")))
			}},
		}
	}
}

func TestAnOlderFileIsCopiedAndUpgraded(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	must(t, s.Commit(modelCommit("t", 1, 0)))
	must(t, s.Close())

	s = openAt(t, path, withSchema3(nil))
	all, err := s.KV(Origins).All()
	must(t, err)
	wantEqual(t, all, map[string][]byte{"two": []byte("2"), "three": []byte("2")})
	_, err = checkThread(s, "t")
	must(t, err)
	must(t, s.Close())

	copies, err := filepath.Glob(path + ".schema-1-*")
	must(t, err)
	wantEqual(t, len(copies), 1)
	old := openAt(t, copies[0])
	all, err = old.KV(Origins).All()
	must(t, err)
	wantEqual(t, len(all), 0)
	_, err = checkThread(old, "t")
	must(t, err)
	// The second start upgrades nothing.
	must(t, openAt(t, path, withSchema3(errors.New("ran again"))).Close())
}

func TestAnUpgradeThatFailsChangesNothing(t *testing.T) {
	path := testPath(t)
	must(t, openAt(t, path).Close())
	s := New(path)
	withSchema3(errors.New("no"))(s)
	wantCode(t, s.Open(), fault.StorageFailed)
	s = openAt(t, path)
	all, err := s.KV(Origins).All()
	must(t, err)
	wantEqual(t, len(all), 0)
}

func TestAStoreThatWasNotClosedIsUnclean(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	wantEqual(t, s.WasUnclean(), false) // a fresh one
	must(t, s.Commit(modelCommit("t", 1, 0)))
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err := s.Backup(t.Context(), copied) // as a crash would leave it
	must(t, err)
	must(t, s.Close())
	wantEqual(t, openAt(t, path).WasUnclean(), false)
	wantEqual(t, openAt(t, copied).WasUnclean(), true)
}

func TestTheFileIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing on Windows")
	}
	path := testPath(t)
	must(t, openAt(t, path).Close())
	must(t, os.Chmod(path, 0o644))
	openAt(t, path)
	info, err := os.Stat(path)
	must(t, err)
	wantEqual(t, info.Mode().Perm(), os.FileMode(0o600))
}

func TestAFileInUseIsRefusedWithASentence(t *testing.T) {
	path := testPath(t)
	openAt(t, path)
	s := New(path)
	s.LockTimeout = 60 * time.Millisecond
	err := s.Open()
	wantCode(t, err, fault.StorageFailed)
	if !strings.Contains(fault.From(err).Message(), "Another program") || s.Damage() != nil {
		t.Fatalf("error %v, damage %v", err, s.Damage())
	}
}

func TestALinkToNowhereIsRefusedWithASentence(t *testing.T) {
	path := testPath(t)
	target := filepath.Join(t.TempDir(), "unmounted", "core.db")
	must(t, os.Symlink(target, path))
	err := New(path).Open()
	wantCode(t, err, fault.StorageFailed)
	if msg := fault.From(err).Message(); !strings.Contains(msg, target) {
		t.Errorf("message %q", msg)
	}
	there, err := os.Readlink(path)
	must(t, err)
	wantEqual(t, there, target)
}

func TestALinkedDatabaseStaysALink(t *testing.T) {
	path := testPath(t)
	target := testPath(t)
	must(t, os.Symlink(target, path))
	must(t, openAt(t, target).Close())
	s := openAt(t, path, func(s *Store) { s.CompactFree = 1 })
	for r := uint64(1); r <= 20; r++ {
		must(t, s.Commit(modelCommit("t", r, 20<<10)))
	}
	must(t, s.Delete("t"))
	drainSweep(t, s)
	must(t, s.Close()) // compacts it
	there, err := os.Readlink(path)
	must(t, err)
	wantEqual(t, there, target)
	info, err := os.Stat(target)
	must(t, err)
	if info.Size() > 1<<20 {
		t.Errorf("the file has %d bytes and was not compacted", info.Size())
	}
}

func TestAFolderInThePlaceOfTheDatabaseIsRefusedWithASentence(t *testing.T) {
	path := testPath(t)
	must(t, os.Mkdir(path, 0o700))
	err := New(path).Open()
	wantCode(t, err, fault.StorageFailed)
	if msg := fault.From(err).Message(); !strings.Contains(msg, "is a folder") {
		t.Errorf("message %q", msg)
	}
}

func TestAFolderThatIsMissingIsNoDamage(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "missing", "core.db"))
	wantCode(t, s.Open(), fault.StorageFailed)
	if s.Damage() != nil {
		t.Fatal("counts as damaged")
	}
}

func TestLeftOversOfACrashAreRemovedAtOpening(t *testing.T) {
	path := testPath(t)
	for _, suffix := range []string{suffixNew, suffixCompact} {
		must(t, os.WriteFile(path+suffix, []byte("half"), 0o600))
	}
	openAt(t, path)
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	wantEqual(t, len(entries), 1)
}
