// Package modelserver is a language model on loopback for tests that drive real
// agent programs: it speaks the wire protocols that such programs use to reach a
// model, and does what a marker in the last user text says.
//
// It owns the listener, the record of requests, and one file a wire protocol that
// turns a [Plan] into that protocol's frames. chat.go has OpenAI's Chat
// Completions, as opencode uses it through @ai-sdk/openai-compatible; responses.go
// OpenAI's Responses, as codex does; messages.go Anthropic's Messages, as Claude
// Code does. Another protocol is another file with a handler: read its request into
// a [Request], ask [PlanFor], write the plan.
//
// It never reaches another machine, keeps no conversation of its own (clients send
// all of it with each request), and is no part of the daemon.
//
// Concurrency: a [Server] may be used from many goroutines; each request is served
// by one of its own, and [Server.Close] ends and waits for all.
//
// Failure model: what cannot be read is answered with 400 and recorded; a client
// that goes away ends its request, which is recorded as Aborted.
package modelserver
