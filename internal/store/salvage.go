package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// Layout of a bbolt page, format version 2, in the machine's own byte order: a
// header, then an entry for each element, then the keys.
const (
	pageFlagsAt     = 8 // uint16, behind the page's own number
	pageCountAt     = 10
	pageOverflowAt  = 12 // uint32, pages that follow as a part of it
	pageHeaderBytes = 16

	branchEntryBytes = 16 // place of the key counted from the entry, its length, the child's page number
	branchChildAt    = 8
	branchFlag       = 1
	leafEntryBytes   = 16 // flags, place of the key counted from the entry, its length, that of the value behind it
	leafFlag         = 2

	// maxTreeDepth ends the way down a tree whose damaged branches lead in a circle.
	maxTreeDepth = 32
	// maxPageBytes bounds what a damaged count of pages can ask for.
	maxPageBytes = 16 << 20
)

// branches reads the branch pages of a tree from the file itself. bbolt's cursor
// cannot step over a page that it cannot read; the keys at which the branches above
// divide the tree tell where the next page begins.
type branches struct {
	file     *os.File
	pageSize int64
	pages    uint64 // of the file, as its meta page says
}

func branchesOf(o *opening, tx *bolt.Tx) branches {
	size := int64(tx.DB().Info().PageSize)
	return branches{file: o.file, pageSize: size, pages: uint64(tx.Size() / size)}
}

// next returns the smallest key behind a given one at which a page of the tree
// below root begins, nil = none is known. Branches that cannot be read are passed
// over with all that is below them.
func (b branches) next(root uint64, key []byte) []byte { return b.nextBelow(root, key, maxTreeDepth) }

func (b branches) nextBelow(page uint64, key []byte, depth int) []byte {
	entries, err := b.read(page)
	if err != nil || depth == 0 {
		return nil
	}
	at := 0 // the child that holds key
	for at+1 < len(entries) && bytes.Compare(entries[at+1].key, key) <= 0 {
		at++
	}
	found := b.nextBelow(entries[at].child, key, depth-1)
	if at+1 < len(entries) && (found == nil || bytes.Compare(entries[at+1].key, found) < 0) {
		return entries[at+1].key
	}
	return found
}

// checkTop returns errDamaged unless the topmost page of a bucket is sound. Whatever
// is changed below it is written together with all of its entries, so one that leads
// out of it makes every change of the bucket fail. Root 0 is that of a small bucket,
// which lies in the page above.
func (b branches) checkTop(root uint64) error {
	if root == 0 {
		return nil
	}
	if _, err := b.read(root); err == nil {
		return nil
	}
	h, err := b.header(root, leafFlag)
	if err != nil {
		return err
	}
	// The entries alone: what they lead to may be large.
	entries := make([]byte, h.count*leafEntryBytes)
	if pageHeaderBytes+len(entries) > int(h.size) {
		return fmt.Errorf("page %d: %w", root, errDamaged)
	}
	if _, err := b.file.ReadAt(entries, h.at+pageHeaderBytes); err != nil {
		return err
	}
	for i := range h.count {
		begin := i * leafEntryBytes
		end := uint64(pageHeaderBytes + begin)
		for _, field := range []int{4, 8, 12} {
			end += uint64(binary.NativeEndian.Uint32(entries[begin+field:]))
		}
		if end > uint64(h.size) {
			return fmt.Errorf("page %d: %w", root, errDamaged)
		}
	}
	return nil
}

// checkEnds returns errDamaged if the way down one end of a tree leads in a circle,
// which bbolt would follow without end.
func (b branches) checkEnds(root uint64) error {
	for _, end := range []func(count int) int{
		func(int) int { return 0 },
		func(count int) int { return max(0, count-1) },
	} {
		page := root
		for depth := 0; ; depth++ {
			if depth == maxTreeDepth {
				return fmt.Errorf("page %d leads in a circle: %w", root, errDamaged)
			}
			h, err := b.header(page, branchFlag)
			if err != nil {
				break // a leaf, or what bbolt will not take for a branch
			}
			if pageHeaderBytes+h.count*branchEntryBytes > int(h.size) {
				return fmt.Errorf("page %d: %w", page, errDamaged)
			}
			var child [pageNumberBytes]byte
			entry := h.at + pageHeaderBytes + int64(end(h.count))*branchEntryBytes
			if _, err := b.file.ReadAt(child[:], entry+branchChildAt); err != nil {
				return err
			}
			page = binary.NativeEndian.Uint64(child[:])
		}
	}
	return nil
}

// branchEntry is one child of a branch page and the first key below it.
type branchEntry struct {
	key   []byte
	child uint64
}

// read returns the entries of a branch page, at least one. Everything else, and a
// page that contradicts itself, is an error.
func (b branches) read(page uint64) ([]branchEntry, error) {
	p, err := b.bytes(page, branchFlag)
	if err != nil {
		return nil, err
	}
	count := int(binary.NativeEndian.Uint16(p[pageCountAt:]))
	if count == 0 || pageHeaderBytes+count*branchEntryBytes > len(p) {
		return nil, fmt.Errorf("page %d: %w", page, errDamaged)
	}
	entries := make([]branchEntry, count)
	for i := range entries {
		entry := p[pageHeaderBytes+i*branchEntryBytes:]
		begin := uint64(binary.NativeEndian.Uint32(entry))
		end := begin + uint64(binary.NativeEndian.Uint32(entry[4:]))
		if end > uint64(len(entry)) {
			return nil, fmt.Errorf("page %d: %w", page, errDamaged)
		}
		entries[i] = branchEntry{key: entry[begin:end], child: binary.NativeEndian.Uint64(entry[8:])}
		if i > 0 && bytes.Compare(entries[i-1].key, entries[i].key) >= 0 {
			return nil, fmt.Errorf("page %d: %w", page, errDamaged)
		}
	}
	return entries, nil
}

// bytes returns a page of a kind with the pages that belong to it.
func (b branches) bytes(page uint64, kind uint16) ([]byte, error) {
	h, err := b.header(page, kind)
	if err != nil {
		return nil, err
	}
	if h.size > maxPageBytes {
		return nil, fmt.Errorf("page %d has %d bytes: %w", page, h.size, errDamaged)
	}
	p := make([]byte, h.size)
	_, err = b.file.ReadAt(p, h.at)
	return p, err
}

// pageHeader is what a page says of itself, and where it is.
type pageHeader struct {
	at, size int64 // in the file, in bytes, with the pages that belong to it
	count    int
}

// header returns the header of a page of a kind.
func (b branches) header(page uint64, kind uint16) (h pageHeader, err error) {
	if page >= b.pages {
		return h, fmt.Errorf("page %d of %d: %w", page, b.pages, errDamaged)
	}
	h.at = int64(page) * b.pageSize
	head := make([]byte, pageHeaderBytes)
	if _, err := b.file.ReadAt(head, h.at); err != nil {
		return h, err
	}
	if binary.NativeEndian.Uint16(head[pageFlagsAt:]) != kind || binary.NativeEndian.Uint64(head) != page {
		return h, fmt.Errorf("page %d is of another kind: %w", page, errDamaged)
	}
	more := uint64(binary.NativeEndian.Uint32(head[pageOverflowAt:]))
	if more >= b.pages-page {
		return h, fmt.Errorf("page %d leads out of the file: %w", page, errDamaged)
	}
	h.size = int64(1+more) * b.pageSize
	h.count = int(binary.NativeEndian.Uint16(head[pageCountAt:]))
	return h, nil
}
