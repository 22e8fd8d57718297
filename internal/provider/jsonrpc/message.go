package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC 2.0 that we send ourselves.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
)

// Error is an error that the peer answered with.
type Error struct {
	Code    int
	Message string
	Data    jsontext.Value // nil when absent
}

// Error returns the peer's words.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Kind tells what a message is.
type Kind uint8

// The kinds of message.
const (
	Notification Kind = iota + 1
	Request
	Response
)

// Message is one line.
type Message struct {
	Kind   Kind
	ID     jsontext.Value // of a request or response
	Method string         // of a request or notification
	Params jsontext.Value // nil when absent
	Result jsontext.Value // nil when the response is an error
	Error  *Error
}

// ErrNotMessage is the error of a line that is JSON but no JSON-RPC message.
var ErrNotMessage = errors.New("jsonrpc: not a message")

// incoming is an envelope as peers write it. The version member is not looked at:
// some forget it.
type incoming struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

// Decode reads a line, of which the message keeps nothing.
func Decode(line []byte) (Message, error) {
	var in incoming
	if err := Unmarshal(line, &in); err != nil {
		return Message{}, err
	}
	hasID := in.ID != nil && in.ID.Kind() != 'n'
	switch {
	case in.Method != "" && hasID:
		return Message{Kind: Request, ID: in.ID, Method: in.Method, Params: in.Params}, nil
	case in.Method != "":
		return Message{Kind: Notification, Method: in.Method, Params: in.Params}, nil
	case hasID && in.Error != nil && in.Error.Kind() != 'n':
		return Message{Kind: Response, ID: in.ID, Error: decodeError(in.Error)}, nil
	case hasID && in.Result != nil:
		return Message{Kind: Response, ID: in.ID, Result: in.Result}, nil
	}
	return Message{}, ErrNotMessage
}

// peek reads of a message what its two ends show. What they do not is nil or 0. An
// error's text is not among it.
func peek(head, tail []byte) Message {
	told := Peek(head)
	m := Message{ID: told["/id"]}
	_, asks := told["/method"]
	_, answers := told["/result"]
	_, refuses := told["/error"]
	switch {
	case asks:
		m.Kind = Request
	case answers, refuses:
		m.Kind = Response
	}
	if refuses && !answers {
		m.Error = &Error{Message: "an error that is too long to be read"}
	}
	if last := lastID.FindSubmatch(tail); m.ID == nil && last != nil {
		m.ID = last[1]
	}
	if m.ID.Kind() == 'n' {
		m.ID = nil
	}
	return m
}

// lastID matches the end of an object whose last member is its id. Inside a string
// the quotes would be escaped, and behind an inner object another brace would follow.
var lastID = regexp.MustCompile(`[,{]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]+)\s*\}\s*$`)

// Peek reads the beginning of an object: its scalar values, by their JSON pointers.
// A member whose value is cut or is no scalar has nil.
func Peek(head []byte) map[string]jsontext.Value {
	told := map[string]jsontext.Value{}
	dec := jsontext.NewDecoder(bytes.NewReader(head), jsontext.AllowInvalidUTF8(true)) // pointers need names that differ
	for {
		var value jsontext.Value
		var err error
		switch dec.PeekKind() {
		case '{', '}', '[', ']':
			_, err = dec.ReadToken()
		default:
			value, err = dec.ReadValue()
		}
		if err != nil {
			return told
		}
		if kind, length := dec.StackIndex(dec.StackDepth()); kind == '{' && length%2 == 1 {
			value = nil // it was a name
		}
		told[string(dec.StackPointer())] = value.Clone()
	}
}

// decodeError never fails: an error of an unknown shape is still an error.
func decodeError(object jsontext.Value) *Error {
	var in struct {
		Code    jsontext.Value `json:"code"`
		Message jsontext.Value `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	_ = Unmarshal(object, &in)
	e := &Error{Message: Text(in.Message), Data: in.Data}
	e.Code, _ = strconv.Atoi(string(in.Code))
	if e.Message == "" {
		e.Message = "an error without a message"
	}
	return e
}

// lenient is how a peer's JSON is read: it may repeat a name, and a chunk of text
// may end inside a surrogate pair.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Unmarshal reads JSON of a peer into v.
func Unmarshal(value jsontext.Value, v any) error {
	return json.Unmarshal(value, v, lenient)
}

// Text returns what a JSON string says, or "" if the value is none.
func Text(value jsontext.Value) string {
	var text string
	if value.Kind() == '"' {
		_ = Unmarshal(value, &text)
	}
	return text
}

type outgoing struct {
	Version string         `json:"jsonrpc,omitzero"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  any            `json:"params,omitzero"`
	Result  any            `json:"result,omitzero"`
	Error   *outgoingError `json:"error,omitzero"`
}

type outgoingError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func encode(m outgoing) ([]byte, error) {
	return json.Marshal(m, jsontext.AllowInvalidUTF8(true))
}
