package inspect

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Route is where everything of this package is served, itself and below.
const Route = "/inspect"

// Limits.
const (
	CodeLife    = time.Minute    // from the making of a link to its use; a person clicks sooner
	SessionLife = 12 * time.Hour // a working day
	MaxCodes    = 16             // links that nobody has used yet
	MaxSessions = 16             // browsers that are let in; a further one puts the oldest out
	MaxStreams  = 16             // threads that are watched at once
)

// Default durations.
const (
	DefaultPoll         = 500 * time.Millisecond // between two looks at a thread; seems at once to a person
	DefaultWriteTimeout = 10 * time.Second       // for a reader to take what it is sent
	DefaultKeepAlive    = 15 * time.Second       // of silence until a stream shows that it lives
)

// operator is who looks.
var operator = thread.Caller{Token: true}

// Config is what an [Inspector] is made of. Durations: 0 = the default.
type Config struct {
	Threads  Threads
	Runtimes Runtimes
	Encode   Encoding
	// Peers tells whose connections are let in; they come from [KeepConn].
	Peers loopback.PeerCheck
	Log   zerolog.Logger
	Now   func() time.Time // nil = time.Now

	Poll         time.Duration // see [DefaultPoll]
	WriteTimeout time.Duration // see [DefaultWriteTimeout]
	KeepAlive    time.Duration // see [DefaultKeepAlive]
}

// Inspector lets the operator's browsers in and answers them.
type Inspector struct {
	config   Config
	codes    secrets
	sessions secrets
	streams  chan struct{} // one element for each stream that is open

	closing   chan struct{} // closed by Close
	closeOnce sync.Once
}

// New returns an inspector to which no browser has access.
func New(cfg Config) *Inspector {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	for field, standard := range map[*time.Duration]time.Duration{
		&cfg.Poll: DefaultPoll, &cfg.WriteTimeout: DefaultWriteTimeout, &cfg.KeepAlive: DefaultKeepAlive,
	} {
		if *field == 0 {
			*field = standard
		}
	}
	return &Inspector{
		config:   cfg,
		codes:    secrets{life: CodeLife, most: MaxCodes, now: cfg.Now},
		sessions: secrets{life: SessionLife, most: MaxSessions, now: cfg.Now},
		streams:  make(chan struct{}, MaxStreams),
		closing:  make(chan struct{}),
	}
}

// NewLink returns a link that lets one browser in, on a listener at host:port.
func (i *Inspector) NewLink(listener string) (url string, expires time.Time) {
	code, expires := i.codes.issue()
	return "http://" + listener + Route + "/#" + code, expires
}

// Close ends all streams soon and lets no new one begin.
func (i *Inspector) Close() { i.closeOnce.Do(func() { close(i.closing) }) }

// connKey is the key of a request's connection in its context.
type connKey struct{}

// KeepConn is the ConnContext of the server: the user behind a connection is
// looked up by it.
func KeepConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// peer refuses connections of other users.
func (i *Inspector) peer(r *http.Request) error {
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok {
		return loopback.ErrForeignPeer
	}
	return i.config.Peers.Check(conn)
}

// cookieName holds the port, since browsers send the cookies of an address to all
// of its ports.
func cookieName(port int) string { return "pedelec_inspect_" + strconv.Itoa(port) }
