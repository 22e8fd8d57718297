package workspace

import (
	"crypto/rand"
	"errors"
	"os"
)

// writable makes and removes a file, since access lists do not tell beforehand.
func writable(dir *os.Root) error {
	probe := ".write-test-" + rand.Text()
	f, err := dir.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFileMode)
	if err != nil {
		return err
	}
	closeErr := f.Close()
	return errors.Join(closeErr, dir.Remove(probe))
}
