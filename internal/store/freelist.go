package store

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Layout of bbolt's list of free pages, format version 2. A meta page names the
// page on which the list begins: a header like any page's, then the numbers of the
// free pages in ascending order.
const (
	freelistFlag = 0x10

	metaPages      = 2                    // at the start of the file, written in turn
	metaFreelistAt = pageHeaderBytes + 32 // uint64
	noFreelist     = ^uint64(0)           // there is none: it is found by a walk at each open

	pageNumberBytes = 8
	// manyFree as a page's count says that the true one stands before the numbers.
	manyFree = 0xffff
)

// checkFreelist reports damage if the list of free pages names what cannot be one.
// bbolt takes the list as it is, and writes to whatever page it names.
func (b branches) checkFreelist(tx *bolt.Tx) error {
	var field [pageNumberBytes]byte
	meta := int64(tx.ID()%metaPages) * b.pageSize
	if _, err := b.file.ReadAt(field[:], meta+metaFreelistAt); err != nil {
		return err
	}
	page := binary.NativeEndian.Uint64(field[:])
	if page == noFreelist {
		return nil
	}
	free, err := b.freeNumbers(page)
	if err != nil {
		return err
	}
	for least := uint64(metaPages); len(free) > 0; free = free[pageNumberBytes:] {
		number := binary.NativeEndian.Uint64(free)
		if number < least || number >= b.pages {
			return fmt.Errorf("%w: its list of free pages names page %d, where one from %d to %d belongs", errDamaged, number, least, b.pages-1)
		}
		least = number + 1
	}
	return nil
}

// freeNumbers returns the bytes of the list that begins on a page.
func (b branches) freeNumbers(page uint64) ([]byte, error) {
	h, err := b.header(page, freelistFlag)
	if err != nil {
		return nil, fmt.Errorf("its list of free pages: %w", err)
	}
	at, count := h.at+pageHeaderBytes, uint64(h.count)
	if count == manyFree {
		var field [pageNumberBytes]byte
		if _, err := b.file.ReadAt(field[:], at); err != nil {
			return nil, err
		}
		count = binary.NativeEndian.Uint64(field[:])
		at += pageNumberBytes
	}
	if count > uint64(h.size)/pageNumberBytes {
		return nil, fmt.Errorf("%w: its list of free pages names %d in %d bytes", errDamaged, count, h.size)
	}
	free := make([]byte, count*pageNumberBytes)
	_, err = b.file.ReadAt(free, at)
	return free, err
}
