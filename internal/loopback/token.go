package loopback

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// tokenBytes: 256 bits, out of reach of guessing.
const tokenBytes = 32

// NewToken returns a fresh secret of 64 lower-case hexadecimal digits.
func NewToken() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// TokenEqual reports whether a presented token is the expected one, in a time
// that depends on neither. An empty expected token equals nothing.
func TokenEqual(presented, expected string) bool {
	a, b := sha256.Sum256([]byte(presented)), sha256.Sum256([]byte(expected))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && expected != ""
}
