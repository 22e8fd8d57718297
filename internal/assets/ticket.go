package assets

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
)

const (
	// maxUploadTickets of a thread wait side by side, so that a fetch which
	// failed in the browser blocks nothing.
	maxUploadTickets = 4
	// maxDownloadTickets of a thread are kept: a page may make one for each of
	// the 10,000 files of a list.
	maxDownloadTickets = 10_000

	// keepExpired is how long a ticket can still be told to have expired.
	keepExpired = 10 * time.Minute
	sweepEvery  = time.Minute

	ticketIDBytes = 8
)

// direction is the way that a file goes.
type direction uint8

const (
	upload direction = iota
	download
	directions
)

// kinds are what differs between the directions in tickets.
var kinds = [directions]struct {
	name, idPrefix, urlPath string
	maxTickets              int
	unauthorized, expired   fault.Code
}{
	upload:   {"upload", "upl_", "/uploads/", maxUploadTickets, fault.AssetUploadUnauthorized, fault.AssetUploadTicketExpired},
	download: {"download", "dnl_", "/downloads/", maxDownloadTickets, fault.AssetDownloadUnauthorized, fault.AssetDownloadTicketExpired},
}

// ticket is the right to move one file. All but its place in Manager is
// immutable.
type ticket struct {
	direction direction
	id        string
	threadID  string
	owner     string // origin whose pages may use it; "" = any
	workspace string
	segments  []string // of the public path
	size      int64    // of an upload, in bytes
	expires   time.Time
	tokenHash [sha256.Size]byte // the token itself is not kept
}

// newTicket returns a ticket for the visited thread, not filed yet, and its
// token.
func (v *visit) newTicket(d direction) (*ticket, string) {
	token := loopback.NewToken()
	return &ticket{
		direction: d,
		id:        newTicketID(d),
		threadID:  v.threadID,
		owner:     v.Owner,
		workspace: v.Workspace,
		expires:   v.m.cfg.Now().Add(v.m.cfg.TicketLife),
		tokenHash: sha256.Sum256([]byte(token)),
	}, token
}

func newTicketID(d direction) string {
	var b [ticketIDBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return kinds[d].idPrefix + hex.EncodeToString(b[:])
}

// url returns where the ticket is used.
func (t *ticket) url(endpoint string) string {
	return "http://" + endpoint + kinds[t.direction].urlPath + t.id
}

func (t *ticket) opens(token string) bool {
	hash := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(hash[:], t.tokenHash[:]) == 1
}

// file makes a ticket valid. The oldest one of its thread goes when there are
// too many. The lock is held.
func (m *Manager) file(d *desk, t *ticket) {
	m.sweep()
	m.tickets[t.id] = t
	list := append(d.tickets[t.direction], t)
	if len(list) > kinds[t.direction].maxTickets {
		delete(m.tickets, list[0].id)
		list = slices.Delete(list, 0, 1)
	}
	d.tickets[t.direction] = list
}

// drop makes a ticket void. The lock is held.
func (m *Manager) drop(t *ticket) {
	delete(m.tickets, t.id)
	d := m.desks[t.threadID]
	d.tickets[t.direction] = slices.DeleteFunc(d.tickets[t.direction], func(other *ticket) bool { return other == t })
}

// void makes all tickets of a thread void. The lock is held.
func (m *Manager) void(d *desk) {
	for way, list := range d.tickets {
		for _, t := range list {
			delete(m.tickets, t.id)
		}
		d.tickets[way] = nil
	}
}

// sweep throws away tickets that expired long ago. The lock is held.
func (m *Manager) sweep() {
	now := m.cfg.Now()
	if since := now.Sub(m.swept); since >= 0 && since < sweepEvery {
		return
	}
	m.swept = now
	for id, d := range m.desks {
		for way, list := range d.tickets {
			d.tickets[way] = slices.DeleteFunc(list, func(t *ticket) bool {
				old := now.Sub(t.expires) > keepExpired
				if old {
					delete(m.tickets, t.id)
				}
				return old
			})
		}
		m.tidy(id, d)
	}
}

// owner returns the origin to which a ticket belongs, "" for one that is unknown.
func (m *Manager) owner(d direction, id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tickets[id]; t != nil && t.direction == d {
		return t.owner
	}
	return ""
}

// redeem begins the transfer for which a ticket stands. One that is unknown,
// used or not opened by the token is *_UNAUTHORIZED, without a difference; then
// an expired one is *_TICKET_EXPIRED. From there an upload ticket is used up,
// also by THREAD_BUSY and OVERLOADED.
func (m *Manager) redeem(d direction, id, token string) (*transfer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tickets[id]
	if t == nil || t.direction != d || !t.opens(token) {
		return nil, fault.New(kinds[d].unauthorized, "")
	}
	if !m.cfg.Now().Before(t.expires) {
		return nil, fault.New(kinds[d].expired, "")
	}
	desk := m.desks[t.threadID]
	if d == upload {
		m.drop(t)
		if desk.uploading {
			m.tidy(t.threadID, desk)
			return nil, fault.New(fault.ThreadBusy, "Another upload of this thread is running.").With("threadId", t.threadID)
		}
	}
	if m.running[d] >= m.limit(d) {
		m.tidy(t.threadID, desk)
		return nil, fault.Newf(fault.Overloaded, "%d %ss are running; try again in a moment.", m.running[d], kinds[d].name)
	}
	return m.begin(desk, t), nil
}
