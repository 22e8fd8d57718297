package fault

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"
)

func TestErrorText(t *testing.T) {
	cause := errors.New("connection reset")
	tests := []struct {
		err  *Error
		text string
		wire string
	}{
		{New(ThreadBusy, "The thread is busy."), "THREAD_BUSY: The thread is busy.", "The thread is busy."},
		{New(ThreadNotFound, ""), "THREAD_NOT_FOUND: No thread has this id.", "No thread has this id."},
		{Wrap(StorageFailed, "store.commit", cause, "It broke."), "store.commit: STORAGE_FAILED: It broke.: connection reset", "It broke."},
		{Newf(InvalidInput, "limit %d", 5), "INVALID_INPUT: limit 5", "limit 5"},
		{&Error{}, ": " + Internal.Info().Meaning, Internal.Info().Meaning},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("Error() = %q, want %q", got, tt.text)
		}
		if got := tt.err.Message(); got != tt.wire {
			t.Errorf("Message() = %q, want %q", got, tt.wire)
		}
	}
}

func TestErrorsAreComparedByCode(t *testing.T) {
	err := fmt.Errorf("outer: %w", Wrap(StorageFull, "store.commit", io.ErrShortWrite, "No room."))
	if !errors.Is(err, New(StorageFull, "")) || !Is(err, StorageFull) {
		t.Error("the code is not found through a wrapper")
	}
	if errors.Is(err, New(StorageFailed, "")) || Is(err, StorageFailed) {
		t.Error("another code is found")
	}
	if !errors.Is(err, io.ErrShortWrite) {
		t.Error("the cause is not found")
	}
	if Is(nil, Internal) || Is(io.EOF, Internal) {
		t.Error("a code is found where there is none")
	}
}

func TestNewfKeepsTheCause(t *testing.T) {
	if err := Newf(StorageFailed, "read: %w", io.EOF); !errors.Is(err, io.EOF) || err.Msg != "read: EOF" {
		t.Errorf("%v loses its cause", err)
	}
}

func TestWithCopies(t *testing.T) {
	base := New(ThreadBusy, "Busy.").With("threadId", "t1")
	a, b := base.With("reason", "A"), base.With("reason", "B").With("threadId", "t2")
	for _, tt := range []struct {
		err  *Error
		want map[string]any
	}{
		{New(ThreadBusy, "Busy."), nil},
		{base, map[string]any{"threadId": "t1"}},
		{a, map[string]any{"threadId": "t1", "reason": "A"}},
		{b, map[string]any{"threadId": "t2", "reason": "B"}},
	} {
		if !maps.Equal(tt.err.Details, tt.want) {
			t.Errorf("details %v, want %v", tt.err.Details, tt.want)
		}
	}
	if a.Code != base.Code || a.Msg != base.Msg {
		t.Error("the copy is another error")
	}
}

func TestFrom(t *testing.T) {
	if From(nil) != nil {
		t.Error("an error from nothing")
	}
	known := New(ThreadEnded, "Over.")
	if From(known) != known || From(fmt.Errorf("outer: %w", known)) != known {
		t.Error("a known error is not returned itself")
	}
	foreign := From(io.EOF)
	if foreign.Code != Internal || !errors.Is(foreign, io.EOF) || foreign.Message() != Internal.Info().Meaning {
		t.Errorf("a foreign error becomes %v", foreign)
	}
}
