package ipc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// envelope is a request as it stands on the wire. A nil member was absent or
// null.
type envelope struct {
	RequestID        *string        `json:"requestId"`
	Type             *string        `json:"type"`
	CallerOrigin     *string        `json:"callerOrigin"`
	CallerSDKVersion *string        `json:"callerSdkVersion"`
	AuthToken        *string        `json:"authToken"`
	Payload          jsontext.Value `json:"payload"`
}

// request is a decoded line: one to run, or one to refuse.
type request struct {
	id      string
	route   *route // nil when the type is not known
	caller  thread.Caller
	token   tokenState
	payload any // what route.decode made of it
	// blankOrigin is true when no origin, or one of spaces only, was stated.
	blankOrigin bool

	refusal *fault.Error // why it cannot be understood; nil = run it
	foreign bool         // not a JSON object with a requestId
}

// threadID returns the thread that a request names, "" for none or when it
// cannot be understood.
func (r *request) threadID() string {
	if named, ok := r.payload.(interface{ thread() string }); ok {
		return named.thread()
	}
	return ""
}

// proof is what a transport knows for sure of whoever sends its requests. Over
// TCP that is nothing.
type proof struct {
	origin string // of a page, normalised, as its browser states it; "" = no page
	token  bool   // a native client that has shown the daemon's token
}

// tokenState tells what the request said about the daemon's token.
type tokenState uint8

const (
	tokenAbsent tokenState = iota
	tokenValid
	tokenWrong
)

// decodeRequest decodes a line or message and checks envelope and payload, in the
// order of the protocol. The result shares no memory with the line.
func (s *Server) decodeRequest(line []byte, p proof) *request {
	var env envelope
	if err := decodeObject(line, &env); err != nil {
		id, found := findRequestID(line)
		return &request{
			id:      id,
			foreign: !found || !isObject(line) || !jsontext.Value(line).IsValid(),
			refusal: fault.New(fault.IPCUnavailable, "The request is not a valid JSON object of the expected shape.").
				With("error", err.Error()),
		}
	}
	if isBlank(env.RequestID) {
		return &request{foreign: true, refusal: fault.New(fault.IPCUnavailable, "A request needs a requestId.")}
	}
	if len(*env.RequestID) > MaxRequestIDBytes {
		return &request{refusal: tooLong("requestId", MaxRequestIDBytes)}
	}
	req := &request{id: *env.RequestID}
	if isBlank(env.Type) {
		req.refusal = fault.New(fault.IPCUnavailable, "A request needs a type.")
		return req
	}
	req.route = routes[*env.Type]
	if req.route == nil {
		req.refusal = fault.New(fault.IPCUnavailable, "This type of request is not known.").With("type", *env.Type)
		return req
	}
	if env.CallerOrigin != nil && len(*env.CallerOrigin) > MaxOriginBytes {
		req.refusal = tooLong("callerOrigin", MaxOriginBytes)
		return req
	}
	if env.CallerSDKVersion != nil && len(*env.CallerSDKVersion) > MaxSDKVersionBytes {
		req.refusal = tooLong("callerSdkVersion", MaxSDKVersionBytes)
		return req
	}
	payload, err := req.route.decode(env.Payload)
	if err != nil {
		req.refusal = fault.New(fault.IPCUnavailable, "The payload does not have the shape of this request: "+err.Error()+".").
			With("type", req.route.name).With("error", err.Error())
		return req
	}
	req.payload = payload
	req.token = s.judgeToken(env.AuthToken, p)
	req.caller = callerOf(&env, req.token, p)
	req.blankOrigin = !req.caller.OriginVerified && isBlank(env.CallerOrigin)
	return req
}

// decodeObject decodes a JSON object into a struct. Its error is a sentence for
// the client.
func decodeObject(data []byte, into any) error {
	if tooDeep(data) {
		return fmt.Errorf("more than %d levels of nesting", MaxNesting)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return errors.New(describeJSONError(err))
	}
	if !isObject(data) { // null decodes into anything
		return errors.New("not a JSON object")
	}
	return nil
}

// kindNames are what people call the kinds of JSON value. A number is also
// refused where it is negative, fractional or too large.
var kindNames = map[jsontext.Kind]string{
	0: "this value", 'n': "null", 'f': "a boolean", 't': "a boolean",
	'"': "a string", '0': "this number", '{': "an object", '[': "an array",
}

// describeJSONError says what is wrong without naming the types of this program.
func describeJSONError(err error) string {
	var shape *json.SemanticError
	if errors.As(err, &shape) {
		where := string(shape.JSONPointer)
		if where == "" {
			where = "the value"
		}
		return where + " may not be " + kindNames[shape.JSONKind]
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("invalid JSON at byte %d: %s", syntax.ByteOffset, strings.TrimPrefix(syntax.Err.Error(), "jsontext: "))
	}
	return "invalid JSON: it ends too early"
}

// tooDeep reports whether brackets are nested deeper than allowed. It trusts
// nothing about the data but that strings are quoted.
func tooDeep(data []byte) bool {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= MaxNesting {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++ // the escaped byte is no closing quote
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxNesting {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// findRequestID looks for the requestId of a line that cannot be decoded as a
// whole. It returns "" when there is none before the first mistake, or when it
// is over-long.
func findRequestID(line []byte) (id string, found bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return "", false
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != '"' {
			return "", false
		}
		if name.String() != "requestId" {
			if err := dec.SkipValue(); err != nil {
				return "", false
			}
			continue
		}
		value, err := dec.ReadToken()
		if err != nil || value.Kind() != '"' {
			return "", false
		}
		id := value.String()
		if len(id) > MaxRequestIDBytes || strings.TrimSpace(id) == "" {
			return "", false
		}
		return id, true
	}
}

func isObject(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && data[0] == '{'
}

func isBlank(s *string) bool { return s == nil || strings.TrimSpace(*s) == "" }

func tooLong(field string, limit int) *fault.Error {
	return fault.Newf(fault.IPCUnavailable, "%s may have %d bytes.", field, limit).
		With("error", field+" is too long")
}

// appendAnswerStart appends what stands before the result of a success.
func appendAnswerStart(dst []byte, requestID string) []byte {
	dst = append(dst, `{"requestId":`...)
	dst = appendString(dst, requestID)
	return append(dst, `,"ok":true,"result":`...)
}

// appendFailure appends a whole answer line that carries an error, with its LF.
func appendFailure(dst []byte, requestID string, e *fault.Error) []byte {
	dst = append(dst, `{"requestId":`...)
	dst = appendString(dst, requestID)
	dst = append(dst, `,"ok":false,"error":`...)
	dst = appendError(dst, e)
	return append(dst, "}\n"...)
}
