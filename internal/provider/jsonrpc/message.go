package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC 2.0 that we send ourselves.
const (
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

// Message is one line. Its values are views of the line and are good only as
// long as the line is.
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

// Decode reads a line. The version member is not looked at: peers forget it.
func Decode(line []byte) (Message, error) {
	var m Message
	var failure jsontext.Value
	var err error
	for name, value := range Members(line, &err) {
		switch string(name) {
		case "id":
			m.ID = value
		case "method":
			m.Method = Text(value)
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			failure = value
		}
	}
	if err != nil {
		return Message{}, err
	}
	if m.ID.Kind() == 'n' {
		m.ID = nil
	}
	if failure.Kind() == 'n' {
		failure = nil
	}
	switch {
	case m.Method != "" && m.ID != nil:
		m.Kind = Request
	case m.Method != "":
		m.Kind = Notification
	case m.ID != nil && failure != nil:
		m.Kind = Response
		m.Result = nil
		m.Error = decodeError(failure)
	case m.ID != nil && m.Result != nil:
		m.Kind = Response
	default:
		return Message{}, ErrNotMessage
	}
	return m, nil
}

// decodeError never fails: an error object of an unknown shape is still an error.
func decodeError(object jsontext.Value) *Error {
	e := &Error{}
	var err error
	for name, value := range Members(object, &err) {
		switch string(name) {
		case "code":
			e.Code, _ = strconv.Atoi(string(value))
		case "message":
			e.Message = Text(value)
		case "data":
			e.Data = value.Clone()
		}
	}
	if e.Message == "" {
		e.Message = "an error without a message"
	}
	return e
}

// lenient is how a peer's JSON is read: it may repeat a name, and a chunk of text
// may end inside a surrogate pair.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

type scanner struct {
	src bytes.Buffer
	dec *jsontext.Decoder
}

var scanners = sync.Pool{New: func() any {
	s := &scanner{}
	s.dec = jsontext.NewDecoder(&s.src, lenient...)
	return s
}}

// Members walks the members of a JSON object without copying it: names are
// unquoted, values are views of the object. *err is set when the object cannot be
// read to its end, or is none.
func Members(object []byte, err *error) iter.Seq2[[]byte, jsontext.Value] {
	return func(yield func([]byte, jsontext.Value) bool) {
		s := scanners.Get().(*scanner)
		defer s.free()
		s.src = *bytes.NewBuffer(object) // the decoder reads a bytes.Buffer in place
		s.dec.Reset(&s.src, lenient...)
		*err = s.walk(object, yield)
	}
}

func (s *scanner) free() {
	s.src = bytes.Buffer{}
	scanners.Put(s)
}

func (s *scanner) walk(object []byte, yield func([]byte, jsontext.Value) bool) error {
	if token, err := s.dec.ReadToken(); err != nil {
		return err
	} else if token.Kind() != '{' {
		return ErrNotMessage
	}
	for s.dec.PeekKind() != '}' {
		name, err := s.view(object)
		if err != nil {
			return err
		}
		value, err := s.view(object)
		if err != nil {
			return err
		}
		if !yield(unquoteName(name), value) {
			return nil
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	if _, err := s.dec.ReadToken(); err != io.EOF {
		return ErrNotMessage
	}
	return nil
}

// view reads the next value and returns where it stands in the object: the
// decoder's own slice is only good until its next call.
func (s *scanner) view(object []byte) (jsontext.Value, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(s.dec.InputOffset())
	return object[end-len(v) : end : end], nil
}

func unquoteName(name jsontext.Value) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name[1 : len(name)-1]
	}
	plain, _ := jsontext.AppendUnquote(nil, name)
	return plain
}

// Text returns what a JSON string says, or "" if the value is none. Halves of a
// surrogate pair become U+FFFD.
func Text(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(bytes.ToValidUTF8(value[1:len(value)-1], []byte("\uFFFD")))
	}
	plain, _ := jsontext.AppendUnquote(nil, value)
	return string(plain)
}

// Unmarshal reads a value that a peer sent into v, as leniently as lines are read.
func Unmarshal(value jsontext.Value, v any) error {
	return json.Unmarshal(value, v, json.JoinOptions(lenient...))
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
