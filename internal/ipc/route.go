package ipc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/loopback"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// call is one accepted request on its way through a handler.
type call struct {
	server *Server
	caller thread.Caller
	subs   *subscriptions // of the connection that it came on
	to     recipient      // whoever reads the answer

	// answered runs after the answer was written, or could not be; nil = nothing
	// to do.
	answered func(written bool)
	// receipt watches whether the answer arrives; nil = nobody asks.
	receipt *receipt
}

// recipient is the other side of a connection, as far as a handler asks about it.
type recipient interface {
	// receipt begins to watch whether an answer that is still to be written
	// arrives.
	receipt() *receipt
	// gone is closed when the other side has left, although requests of its may
	// still run. A request that waits for a person has no reason to then.
	gone() <-chan struct{}
}

// access says who may send a request.
type access uint8

const (
	forAnyone   access = iota // authorised further down, or open to all
	forOperator               // the user's own tools: token, no origin
	forLister                 // token, or an origin that a handshake verified
	forPage                   // somebody who states an origin
	forBrowser                // somebody whose origin a handshake verified
	forAgent                  // anybody but those: agents speak for no page
)

// route is one request type: how it is decoded, who may send it, what it does.
type route struct {
	name   string
	access access
	inline bool // never waits; may run on the connection's reader
	open   bool // also for pages of an origin that nobody has approved
	large  bool // the answer may be as large as a message can be

	// decode checks the payload's shape and returns what run needs. Its error
	// is a sentence for the client.
	decode func(payload jsontext.Value) (any, error)
	// run appends the encoded result to dst.
	run func(ctx context.Context, c *call, payload any, dst []byte) ([]byte, error)
}

// shape is a payload that can say what is missing from it.
type shape[P any] interface {
	*P
	check() error
}

// handle makes a route of a payload type and a function.
func handle[P any, S shape[P]](name string, who access, run func(context.Context, *call, *P, []byte) ([]byte, error)) *route {
	return &route{
		name:   name,
		access: who,
		decode: func(payload jsontext.Value) (any, error) {
			p := new(P)
			if err := decodePayload(payload, p); err != nil {
				return nil, err
			}
			return p, S(p).check()
		},
		run: func(ctx context.Context, c *call, payload any, dst []byte) ([]byte, error) {
			return run(ctx, c, payload.(*P), dst)
		},
	}
}

// handleBare makes a route of a function that looks at no payload.
func handleBare(name string, who access, run func(context.Context, *call, []byte) ([]byte, error)) *route {
	return &route{
		name:   name,
		access: who,
		decode: func(jsontext.Value) (any, error) { return nil, nil },
		run: func(ctx context.Context, c *call, _ any, dst []byte) ([]byte, error) {
			return run(ctx, c, dst)
		},
	}
}

// routes are all requests by type. It is filled once and only read afterwards.
var routes = index(
	pingRoute,
	handleBare("list_providers", forAnyone, listProviders),
	handleBare("get_settings", forAnyone, getSettings),
	handleBare("pick_workspace_folder", forPage, pickWorkspaceFolder),

	handle("create_thread", forAnyone, createThread),
	handle("subscribe_thread", forAnyone, subscribeThread),
	handle("unsubscribe_thread", forAnyone, unsubscribeThread),
	handle("thread_snapshot", forAnyone, threadSnapshot),
	handle("end_thread", forAnyone, endThread),
	handle("resume_thread", forAnyone, resumeThread),
	handle("delete_thread", forAnyone, deleteThread),
	large(handle("list_threads", forLister, listThreads)),
	large(handle("read_events", forAnyone, readEvents)),

	handle("prepare_thread", forAnyone, prepareThread),
	handle("send_text", forAnyone, sendText),
	handle("cancel_operation", forAnyone, cancelOperation),

	handle("tool_call", forAgent, callTool),
	handle("tool_spec", forAgent, toolSpec),
	handle("submit_tool_result", forAnyone, submitToolResult),

	handle("create_asset_upload", forAnyone, createAssetUpload),
	handle("create_asset_download", forAnyone, createAssetDownload),
	large(handle("list_assets", forAnyone, listAssets)),

	handle("update_settings", forOperator, updateSettings),
	handleBare("refresh_providers", forOperator, refreshProviders),
	handleBare("list_runtimes", forOperator, listRuntimes),
	handle("backup", forOperator, backup),
	handleBare("shutdown", forOperator, shutdown),

	requestApprovalRoute,
	large(handleBare("list_origins", forOperator, listOrigins)),
	handle("decide_origin", forOperator, decideOrigin),

	handleBare("create_inspect_link", forOperator, createInspectLink),
)

// large marks a route whose answer may be as large as a message can be.
func large(r *route) *route {
	r.large = true
	return r
}

func index(list ...*route) map[string]*route {
	m := make(map[string]*route, len(list))
	for _, r := range list {
		m[r.name] = r
	}
	return m
}

// decodePayload decodes a payload into a struct of optional members; an absent
// payload or null sets none of them.
func decodePayload(payload jsontext.Value, into any) error {
	if len(payload) == 0 || payload.Kind() == 'n' {
		return nil
	}
	if !isObject(payload) {
		return errors.New("the payload is not an object")
	}
	if err := json.Unmarshal(payload, into); err != nil {
		return errors.New(describeJSONError(err))
	}
	return nil
}

func missing(member string) error { return fmt.Errorf("%s is missing", member) }

// appendJSON appends a result of the less frequent kinds.
func appendJSON(dst []byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return dst, fault.Wrap(fault.Internal, "ipc.encode", err, "The result could not be encoded.")
	}
	return append(dst, b...), nil
}

// answer runs a request and returns its answer line, with LF, built in dst, and
// the code that it carries, "" for a success.
func (s *Server) answer(ctx context.Context, req *request, c *call, dst []byte) (line []byte, code fault.Code) {
	start := time.Now()
	line, code = s.perform(ctx, req, c, dst)
	s.metrics.request(req.route, code, time.Since(start))
	return line, code
}

// perform is answer without the stop-watch. What panics in a handler is answered
// with INTERNAL.
func (s *Server) perform(ctx context.Context, req *request, c *call, dst []byte) (line []byte, code fault.Code) {
	dst = dst[:0]
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
			line, code = appendFailure(dst[:0], req.id, fault.New(fault.Internal, "")), fault.Internal
		}
	}()
	if req.refusal != nil {
		return appendFailure(dst, req.id, req.refusal), req.refusal.Code
	}
	if e := s.authorise(req); e != nil {
		return appendFailure(dst, req.id, e), e.Code
	}
	dst = appendAnswerStart(dst, req.id)
	line, err := req.route.run(ctx, c, req.payload, dst)
	if err != nil {
		e := s.refusal(err, req.route)
		return appendFailure(dst[:0], req.id, e), e.Code
	}
	line = append(line, "}\n"...)
	if len(line)-1 > MaxOutLineBytes {
		e := fault.New(fault.MessageTooLarge, "The answer would be larger than a message may be.")
		return appendFailure(line[:0], req.id, e), e.Code
	}
	return line, ""
}

// refusal returns the error that the client is told. What is our own fault is
// logged, since the client only learns that it was.
func (s *Server) refusal(err error, r *route) *fault.Error {
	if errors.Is(err, context.Canceled) { // a forced shutdown, or nobody is there to read the answer
		return fault.New(fault.CoreRuntimeUnavailable, "")
	}
	e := fault.From(err)
	if e.Code == fault.Internal {
		s.log.Error().Err(err).Str(keyRequest, r.name).Msg("a request failed for a reason of our own")
	}
	return e
}

// authorise applies the rules that need no look at a thread.
func (s *Server) authorise(req *request) *fault.Error {
	caller := req.caller
	if req.token == tokenWrong {
		return unauthorised("The authToken is not the daemon's token.")
	}
	if !caller.Token && s.settings.RequireToken() {
		return unauthorised("This daemon demands its token with every request.")
	}
	if caller.OriginVerified && !req.route.open && !s.origins.approved(caller.Origin) {
		return fault.New(fault.OriginNotApproved, "").With("origin", caller.Origin)
	}
	switch req.route.access {
	case forOperator:
		if !caller.Operator() {
			return unauthorised("This request needs the daemon's token and no callerOrigin.")
		}
	case forLister:
		if !caller.Token && !caller.OriginVerified {
			return unauthorised("This request needs the daemon's token.")
		}
	case forPage:
		if !caller.OriginStated || req.blankOrigin {
			return unauthorised("This request needs a callerOrigin.")
		}
	case forBrowser:
		if !caller.OriginVerified {
			return unauthorised("Only a web page asks for this, over a WebSocket.")
		}
	case forAgent:
		if caller.OriginVerified {
			return unauthorised("Agents send this, not web pages.")
		}
	}
	return nil
}

func unauthorised(why string) *fault.Error { return fault.New(fault.IPCUnauthorized, why) }

// judgeToken compares the token of a request in constant time. A page's counts
// for nothing: pages are let in by their origin.
func (s *Server) judgeToken(given *string, p proof) tokenState {
	switch {
	case p.origin != "":
		return tokenAbsent
	case given == nil && p.token:
		return tokenValid
	case given == nil:
		return tokenAbsent
	case loopback.TokenEqual(*given, s.token):
		return tokenValid
	}
	return tokenWrong
}

// callerOf says who sends a request. An origin that a handshake proved takes the
// place of one that is only stated.
func callerOf(env *envelope, token tokenState, p proof) thread.Caller {
	caller := thread.Caller{Token: token == tokenValid}
	switch {
	case p.origin != "":
		caller.Origin, caller.OriginStated, caller.OriginVerified = p.origin, true, true
	case env.CallerOrigin != nil:
		caller.OriginStated = true
		caller.Origin, _ = loopback.NormalizeOrigin(*env.CallerOrigin)
	}
	if env.CallerSDKVersion != nil {
		caller.SDKVersion = strings.TrimSpace(*env.CallerSDKVersion)
	}
	return caller
}
