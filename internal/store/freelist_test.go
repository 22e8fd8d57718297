package store

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A freePage is the page of a whole database on which its list of free pages is.
type freePage struct {
	header  []byte // of the page
	numbers []uint64
	root    uint64 // page of the bucket of buckets
	pages   uint64 // of the file
}

// freePageOf finds the page in the bytes of a file, and what is to be known of it.
func freePageOf(t *testing.T, path string, whole []byte) (p freePage) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	must(t, err)
	defer db.Close()
	must(t, db.View(func(tx *bolt.Tx) error {
		size := uint64(db.Info().PageSize)
		p.pages = uint64(tx.Size()) / size
		meta := whole[uint64(tx.ID())%metaPages*size:]
		p.root = binary.NativeEndian.Uint64(meta[pageHeaderBytes+16:])
		p.header = whole[binary.NativeEndian.Uint64(meta[metaFreelistAt:])*size:][:size]
		return nil
	}))
	count := binary.NativeEndian.Uint16(p.header[pageCountAt:])
	for i := range int(count) {
		p.numbers = append(p.numbers, binary.NativeEndian.Uint64(p.header[pageHeaderBytes+i*pageNumberBytes:]))
	}
	return p
}

// write puts numbers on the page.
func (p freePage) write(numbers ...uint64) {
	binary.NativeEndian.PutUint16(p.header[pageCountAt:], uint16(len(numbers)))
	for i, n := range numbers {
		binary.NativeEndian.PutUint64(p.header[pageHeaderBytes+i*pageNumberBytes:], n)
	}
}

// withFreePages returns the bytes of a closed database of which much was deleted.
func withFreePages(t *testing.T) (path string, whole []byte) {
	t.Helper()
	path = testPath(t)
	s := openAt(t, path)
	fill(t, s, 200, 1)
	for r := uint64(1); r <= 5; r++ {
		must(t, s.Commit(modelCommit("t", r, 20<<10)))
	}
	must(t, s.Delete("t"))
	must(t, s.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	return path, whole
}

// TestADamagedListOfFreePagesIsNotWrittenBy: bbolt would write new data to whatever
// page the list names, or fail at each change, so that nothing could be started.
func TestADamagedListOfFreePagesIsNotWrittenBy(t *testing.T) {
	for name, damage := range map[string]func(freePage){
		"a page behind the end":   func(p freePage) { p.write(append(p.numbers, p.pages)...) },
		"a page far away":         func(p freePage) { p.write(append(p.numbers, 1<<63)...) },
		"a meta page":             func(p freePage) { p.write(slices.Insert(slices.Clone(p.numbers), 0, 1)...) },
		"one twice":               func(p freePage) { p.write(slices.Insert(slices.Clone(p.numbers), 0, p.numbers[0])...) },
		"out of order":            func(p freePage) { p.write(p.numbers[1], p.numbers[0]) },
		"the page of all buckets": func(p freePage) { p.write(withNumber(p.numbers, p.root)...) },
		"more than there are": func(p freePage) {
			p.write(p.pages + 1)
			binary.NativeEndian.PutUint16(p.header[pageCountAt:], manyFree)
		},
		"no list": func(p freePage) { binary.NativeEndian.PutUint16(p.header[pageFlagsAt:], branchFlag) },
	} {
		t.Run(name, func(t *testing.T) {
			path, whole := withFreePages(t)
			p := freePageOf(t, path, whole)
			if len(p.numbers) < 2 {
				t.Fatalf("free are %v", p.numbers)
			}
			damage(p)
			must(t, os.WriteFile(path, whole, 0o600))
			s := openAt(t, path)
			d := s.Damage()
			if d == nil {
				t.Fatal("nothing was noticed")
			}
			kept, err := os.ReadFile(d.MovedTo)
			must(t, err)
			if !bytes.Equal(kept, whole) {
				t.Error("the damaged file was changed")
			}
			must(t, s.Commit(modelCommit("t", 1, 0)))
			must(t, s.Healthy())
		})
	}
}

// withNumber adds a number in its place.
func withNumber(numbers []uint64, n uint64) []uint64 {
	at, _ := slices.BinarySearch(numbers, n)
	return slices.Insert(slices.Clone(numbers), at, n)
}

func TestALongListOfFreePagesIsRead(t *testing.T) {
	path, whole := withFreePages(t)
	p := freePageOf(t, path, whole)
	p.write(append([]uint64{uint64(len(p.numbers))}, p.numbers...)...)
	binary.NativeEndian.PutUint16(p.header[pageCountAt:], manyFree) // as bbolt writes many
	must(t, os.WriteFile(path, whole, 0o600))
	s := openAt(t, path)
	if d := s.Damage(); d != nil {
		t.Fatalf("damage is %+v", d)
	}
	must(t, s.Commit(modelCommit("t", 1, 0)))
}
