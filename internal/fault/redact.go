package fault

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Redacted stands where a secret was.
const Redacted = "[redacted]"

// minSecret is the shortest string that is taken for a secret; shorter ones
// would blank out ordinary words.
const minSecret = 8

// secretShapes match secrets by their look: bearer headers, key-value pairs of
// well-known names, vendor API keys, and the secrets of our own tool servers,
// which are too many to be kept by value.
var secretShapes = regexp.MustCompile(`(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}` +
	`|((?:api[_-]?key|token|password|secret)["']?\s*[:=]\s*["']?)[^\s"',;]{8,}` +
	`|()\b(?:sk|pk|rk|pdl)-[A-Za-z0-9_-]{16,}`)

// A Redactor replaces secrets in text that leaves the daemon: logs, error
// details, stderr tails. The zero value knows no particular secret and replaces
// by shape only.
type Redactor struct {
	mu      sync.RWMutex
	secrets []string // longest first, so that one inside another leaves no rest
}

// Add makes the redactor replace a secret from now on. Strings under 8 bytes
// are ignored.
func (r *Redactor) Add(secret string) {
	if len(secret) < minSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.secrets, secret) {
		return
	}
	r.secrets = append(r.secrets, secret)
	slices.SortStableFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

// String returns s without secrets.
func (r *Redactor) String(s string) string {
	r.mu.RLock()
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, Redacted)
	}
	r.mu.RUnlock()
	return secretShapes.ReplaceAllString(s, "${1}${2}${3}"+Redacted)
}

// Writer returns a writer that redacts each Write, which must hold whole lines,
// as a log writer's does.
func (r *Redactor) Writer(w io.Writer) io.Writer { return redactWriter{r, w} }

type redactWriter struct {
	r *Redactor
	w io.Writer
}

func (w redactWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.r.String(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
