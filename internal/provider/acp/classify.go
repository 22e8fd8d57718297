package acp

import (
	"strings"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// class is what an agent's error means to us, beyond having failed. The agents'
// words are matched here and nowhere else; testdata/errors.jsonl holds what they
// were seen to say.
type class uint8

const (
	plainFailure class = iota
	authRequired
	unknownSession
)

// Codes that ACP adds to those of JSON-RPC.
const (
	codeAuthRequired     = -32000
	codeResourceNotFound = -32002
	codeRequestCancelled = -32800
)

// authWords are in the errors of agents that want a login.
var authWords = []string{
	"authentication required", "not authenticated", "not logged in", "not signed in",
	"please log in", "please login", "please sign in", "login required", "log in first", "run agent login", "cursor-agent login",
	"opencode auth login",
}

// sessionWords are in the errors of agents that do not know a session.
var sessionWords = []string{
	"session not found", "unknown session", "no such session", "session does not exist", "invalid session",
	"could not find session", "no conversation found",
}

// classify reads an agent's error to a request.
func classify(method string, e *jsonrpc.Error) class {
	text := strings.ToLower(e.Message)
	switch {
	case e.Code == codeAuthRequired, containsAny(text, authWords):
		return authRequired
	case containsAny(text, sessionWords):
		return unknownSession
	case opens(method) && e.Code == codeResourceNotFound:
		return unknownSession
	case opens(method) && strings.Contains(text, "opencode service failure") && strings.Contains(string(e.Data), `"session"`):
		return unknownSession // how OpenCode 1.18 answers session/load of an id that it does not have
	}
	return plainFailure
}

// opens reports whether a method opens an existing session.
func opens(method string) bool { return method == "session/resume" || method == "session/load" }

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
