package ipc

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
)

// requestApprovalRoute waits for the user, and for nothing else.
var requestApprovalRoute = &route{
	name:   "request_approval",
	access: forBrowser,
	open:   true,
	decode: func(jsontext.Value) (any, error) { return nil, nil },
	run: func(ctx context.Context, c *call, _ any, dst []byte) ([]byte, error) {
		ctx, done := c.server.whileServing(ctx)
		defer done()
		if err := c.server.origins.ask(ctx, c.caller.Origin, c.to.gone()); err != nil {
			return nil, err
		}
		return append(dst, `{"approved":true}`...), nil
	},
}

func listOrigins(_ context.Context, c *call, dst []byte) ([]byte, error) {
	return appendJSON(dst, OriginList{Origins: c.server.origins.list(c.server.socketsByOrigin())})
}

// decidePayload is the payload of decide_origin.
type decidePayload struct {
	Origin   *string `json:"origin"`
	Decision *string `json:"decision"`
}

// decisions are the words of decide_origin.
var decisions = map[string]verdict{"approve": approved, "reject": rejected, "revoke": undecided}

func (p *decidePayload) check() error {
	switch {
	case p.Origin == nil:
		return missing("origin")
	case p.Decision == nil:
		return missing("decision")
	}
	if _, ok := decisions[*p.Decision]; !ok {
		return errors.New("decision is approve, reject or revoke")
	}
	return nil
}

// decideOrigin answers when the decision is durable and acts: an origin that has
// lost its approval has lost its connections too.
func decideOrigin(_ context.Context, c *call, p *decidePayload, dst []byte) ([]byte, error) {
	origin, ok := loopback.NormalizeOrigin(*p.Origin)
	if !ok {
		return nil, fault.New(fault.InvalidInput, "This is no web origin; one looks like https://app.example.").
			With("origin", cutText(*p.Origin, MaxOriginBytes))
	}
	lost, err := c.server.origins.decide(origin, decisions[*p.Decision])
	if err != nil {
		return nil, err
	}
	if lost {
		c.server.cutOrigin(origin)
	}
	return append(dst, "{}"...), nil
}
