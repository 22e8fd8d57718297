package fault

import (
	"errors"
	"fmt"
)

// Error is a failure with a code that clients know. Compare by code:
//
//	errors.Is(err, fault.New(fault.ThreadBusy, ""))
//
// or, shorter, fault.Is(err, fault.ThreadBusy).
type Error struct {
	Code    Code           // what kind of failure
	Op      string         // the operation that failed, e.g. "store.commit"; for logs only
	Msg     string         // a sentence for a person; never empty on the wire
	Details map[string]any // JSON-ready facts for a program; nil when there are none
	Err     error          // the cause, or nil; never shown to clients
}

// New returns an error with a code and a sentence.
func New(code Code, msg string) *Error {
	return &Error{Code: code, Msg: msg}
}

// Newf is New with a format. A %w verb makes its operand the cause.
func Newf(code Code, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Msg: wrapped.Error(), Err: errors.Unwrap(wrapped)}
}

// Wrap returns an error with the given code whose cause is err. The cause's
// text stays out of the message, since it may hold paths or secrets.
func Wrap(code Code, op string, err error, msg string) *Error {
	return &Error{Code: code, Op: op, Msg: msg, Err: err}
}

// With returns a copy of e with one more detail.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Details = make(map[string]any, len(e.Details)+1)
	for k, v := range e.Details {
		c.Details[k] = v
	}
	c.Details[key] = value
	return &c
}

// Message returns the sentence that goes onto the wire: Msg, else the table's
// meaning of the code.
func (e *Error) Message() string {
	if e.Msg != "" {
		return e.Msg
	}
	return e.Code.Info().Meaning
}

// Error returns operation, code, message and cause, for logs.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message()
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Is reports whether err is, or wraps, an *Error with the code.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// From returns err as an *Error: itself if it is one, else an [Internal] one
// that wraps it. It returns nil for nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Msg: Internal.Info().Meaning, Err: err}
}

// ErrUnsent is in the chain of an error when nothing of a message was handed
// over, so that sending it again cannot double it.
var ErrUnsent = errors.New("nothing was sent")

// Unsent returns a copy of e that has [ErrUnsent] in its chain.
func (e *Error) Unsent() *Error {
	c := *e
	c.Err = errors.Join(ErrUnsent, e.Err)
	return &c
}

// CarryUnsent returns to, with [ErrUnsent] in its chain if from has it.
func CarryUnsent(from, to error) error {
	if to == nil || !errors.Is(from, ErrUnsent) || errors.Is(to, ErrUnsent) {
		return to
	}
	return From(to).Unsent()
}
