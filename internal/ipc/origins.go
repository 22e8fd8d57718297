package ipc

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
)

// origins knows which web origins may act, and holds the requests of pages that
// wait until the user has decided about theirs.
type origins struct {
	store   OriginStore
	allowed func() []string // of the settings
	log     zerolog.Logger
	wait    time.Duration // for a decision

	// deciding is held by a decision until it is durable and has taken effect,
	// so that they take effect in the order in which they were stored.
	deciding sync.Mutex

	mu      sync.Mutex
	decided map[string]decision
	waiting map[string]*approval
	told    time.Time // when the log last told of a page that waits
}

// approval is what the waiting requests of one origin share.
type approval struct {
	requests int
	done     chan struct{} // closed when the user has decided
	verdict  verdict       // valid then
}

// tellApart is how often the log tells of a page that waits, so that a page
// cannot fill it.
const tellApart = 5 * time.Second

// openOrigins reads what was decided. What cannot be read is not approved.
func openOrigins(store OriginStore, allowed func() []string, log zerolog.Logger, wait time.Duration) *origins {
	o := &origins{
		store: store, allowed: allowed, log: log, wait: wait,
		decided: map[string]decision{}, waiting: map[string]*approval{},
	}
	all, err := store.All()
	if err != nil {
		log.Error().Err(err).Msg("what was decided about web origins cannot be read; pages must ask again")
	}
	for origin, value := range all {
		d, err := decodeDecision(value)
		if err != nil {
			log.Error().Err(err).Str(keyOrigin, origin).Msg("pages of this origin must ask again")
			continue
		}
		o.decided[origin] = d
	}
	return o
}

// approved reports whether pages of an origin may act.
func (o *origins) approved(origin string) bool {
	o.mu.Lock()
	d := o.decided[origin]
	o.mu.Unlock()
	return d.verdict == approved || o.isAllowed(origin)
}

// isAllowed reports whether the settings name an origin.
func (o *origins) isAllowed(origin string) bool {
	return slices.ContainsFunc(o.allowed(), func(entry string) bool {
		named, ok := loopback.NormalizeOrigin(entry)
		return ok && named == origin
	})
}

// ask waits until the user has decided about an origin, or until the page is
// gone. Errors: APPROVAL_REJECTED, APPROVAL_TIMEOUT, OVERLOADED, and those of
// ctx.
func (o *origins) ask(ctx context.Context, origin string, gone <-chan struct{}) error {
	if o.approved(origin) {
		return nil
	}
	a, err := o.join(origin)
	if err != nil {
		return err
	}
	defer o.part(origin, a)
	patience := time.NewTimer(o.wait)
	defer patience.Stop()
	select {
	case <-a.done:
		return a.outcome(origin)
	case <-patience.C:
		if o.isAllowed(origin) { // by now: the settings do not call
			return nil
		}
		return fault.New(fault.ApprovalTimeout, "").With("origin", origin)
	case <-gone:
		return context.Canceled
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join adds a request to those that wait for a decision about an origin.
func (o *origins) join(origin string) (*approval, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch o.decided[origin].verdict {
	case approved:
		return &approval{requests: 1, done: closedChannel, verdict: approved}, nil
	case rejected:
		return nil, rejection(origin)
	}
	a := o.waiting[origin]
	if a == nil && len(o.waiting) >= MaxWaitingOrigins {
		return nil, fault.New(fault.Overloaded, "Too many web pages wait for a decision; try again later.")
	}
	if a != nil && a.requests >= MaxWaitingOfOrigin {
		return nil, fault.New(fault.Overloaded, "Enough requests of this origin wait for a decision.")
	}
	if a == nil {
		a = &approval{done: make(chan struct{})}
		o.waiting[origin] = a
		o.tell(origin)
	}
	a.requests++
	return a, nil
}

// part takes a request away that does not wait any more.
func (o *origins) part(origin string, a *approval) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.requests--; a.requests == 0 && o.waiting[origin] == a {
		delete(o.waiting, origin)
	}
}

// tell says in the log that a page waits. o.mu is held.
func (o *origins) tell(origin string) {
	if now := time.Now(); now.Sub(o.told) >= tellApart {
		o.told = now
		o.log.Info().Str(keyOrigin, origin).Msg("a web page asks to be approved; decide with: pedelec-core origins approve, or reject")
	}
}

func (a *approval) outcome(origin string) error {
	if a.verdict == approved {
		return nil
	}
	return rejection(origin)
}

func rejection(origin string) error {
	return fault.New(fault.ApprovalRejected, "").With("origin", origin)
}

// closedChannel is the done of an approval that nobody waits for.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// decide makes a verdict durable and then lets it act; undecided takes an
// earlier one back. It reports whether the origin has lost its approval. Errors:
// INVALID_INPUT, and those of the store.
func (o *origins) decide(origin string, v verdict) (lost bool, err error) {
	o.deciding.Lock()
	defer o.deciding.Unlock()
	if v != approved && o.isAllowed(origin) {
		return false, fault.New(fault.InvalidInput, "The settings allow this origin: take it out of allowedOrigins there.").With("origin", origin)
	}
	d := decision{v, time.Now().UTC()}
	if err := o.keep(origin, d); err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	lost = v != approved && o.decided[origin].verdict == approved
	if v == undecided {
		delete(o.decided, origin)
		return lost, nil // requests that wait go on waiting
	}
	o.decided[origin] = d
	if a := o.waiting[origin]; a != nil {
		delete(o.waiting, origin)
		a.verdict = v
		close(a.done)
	}
	return lost, nil
}

// keep makes a decision durable. o.deciding is held.
func (o *origins) keep(origin string, d decision) error {
	if d.verdict == undecided {
		return o.store.Delete(origin)
	}
	o.mu.Lock()
	_, known := o.decided[origin]
	full := !known && len(o.decided) >= MaxDecidedOrigins
	o.mu.Unlock()
	if full {
		return fault.Newf(fault.InvalidInput, "%d origins are decided about already; revoke some first.", MaxDecidedOrigins)
	}
	return o.store.Put(origin, d.encode())
}

// list describes every origin that is decided about, allowed by the settings,
// waiting, or connected, in order.
func (o *origins) list(connections map[string]int) []OriginInfo {
	all := map[string]*OriginInfo{}
	of := func(origin string) *OriginInfo {
		if all[origin] == nil {
			all[origin] = &OriginInfo{Origin: origin, Decision: undecided.String()}
		}
		return all[origin]
	}
	for origin, n := range connections {
		of(origin).Connections = n
	}
	o.mu.Lock()
	for origin, d := range o.decided {
		info, at := of(origin), d.at
		info.Decision, info.DecidedAt = d.verdict.String(), &at
	}
	for origin, a := range o.waiting {
		of(origin).Waiting = a.requests
	}
	o.mu.Unlock()
	for _, entry := range o.allowed() {
		if origin, ok := loopback.NormalizeOrigin(entry); ok {
			info := of(origin)
			info.Decision, info.BySettings = approved.String(), true
		}
	}
	list := make([]OriginInfo, 0, len(all))
	for _, info := range all {
		list = append(list, *info)
	}
	slices.SortFunc(list, func(a, b OriginInfo) int { return strings.Compare(a.Origin, b.Origin) })
	return list
}
