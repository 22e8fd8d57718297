package inspect

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"sync"
	"time"

	"github.com/pedelec/pedelec-core/internal/loopback"
)

// secrets are short-lived secrets of one kind. Only their hashes are kept. When
// there are too many, the oldest gives way.
type secrets struct {
	life time.Duration
	most int
	now  func() time.Time

	mu   sync.Mutex
	kept []secret // by age, oldest first
}

type secret struct {
	hash    [sha256.Size]byte
	expires time.Time
}

// issue makes a secret.
func (s *secrets) issue() (text string, expires time.Time) {
	text, expires = loopback.NewToken(), s.now().Add(s.life)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetExpired()
	if len(s.kept) >= s.most {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, secret{sha256.Sum256([]byte(text)), expires})
	return text, expires
}

// has reports whether a secret is good.
func (s *secrets) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(text) >= 0
}

// take reports whether a secret was good; from then on it is not. Another one
// takes nothing away.
func (s *secrets) take(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(text)
	if i >= 0 {
		s.kept = slices.Delete(s.kept, i, i+1)
	}
	return i >= 0
}

// find compares with every secret, each in constant time.
func (s *secrets) find(text string) int {
	s.forgetExpired()
	hash, found := sha256.Sum256([]byte(text)), -1
	for i := range s.kept {
		if subtle.ConstantTimeCompare(hash[:], s.kept[i].hash[:]) == 1 {
			found = i
		}
	}
	return found
}

func (s *secrets) forgetExpired() {
	now := s.now()
	s.kept = slices.DeleteFunc(s.kept, func(k secret) bool { return !now.Before(k.expires) })
}
