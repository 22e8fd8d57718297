// Package thread is what a thread is and how it changes: its record, its
// events, and the pure function [Step] that maps a state and an input to the
// next state, the events to tell, the effects to carry out and the replies to
// give.
//
// It owns the state machine and the event orders of docs/LIFECYCLE.md; it is
// the only place that changes a status.
//
// It never does I/O, starts no goroutine and looks at no clock: time is an
// argument. It knows neither the database nor the wire's JSON.
//
// Concurrency: [State] is a value. Its slices and pointers are copied before
// they are changed, except that text is appended behind the length which older
// values see; so an older State stays readable while a newer one is built, as
// long as only the newest is stepped again.
//
// Failure model: [Step] is total: it has an answer for each status and input,
// and what makes no sense (a frame of an old turn, a timer that was disarmed
// too late) changes nothing.
package thread
