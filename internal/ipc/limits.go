package ipc

import "time"

// Protocol is the name of the wire protocol, as the runtime file states it.
const Protocol = "pedelec-core-ipc-v1"

// Limits of the wire. The existing clients apply the same line limit to what
// they read, and wrap it once more before the browser, which explains the
// margin of outgoing lines.
const (
	MaxLineBytes    = 1 << 20   // one incoming line without its LF
	MaxOutLineBytes = 1_048_000 // one outgoing line without its LF
	MaxNesting      = 128       // arrays and objects inside each other, the envelope included
	MaxDetailsBytes = 8 << 10   // encoded error details; also the message of an error
	MaxResultBytes  = 64 << 10  // a tool result inside an event; a larger one is left out

	MaxRequestIDBytes  = 512
	MaxOriginBytes     = 512
	MaxSDKVersionBytes = 64

	MaxConnections   = 1024 // TCP connections at once; the next is closed
	MaxSubscriptions = 64   // a connection

	MaxSockets         = 256 // WebSockets at once
	MaxSocketsOfOrigin = 64  // of these, of one origin
	MaxStrangerSockets = 64  // of these, of origins that nobody has approved
	MaxInFlight        = 32  // requests on a WebSocket that are not answered yet
	MaxWaitingOrigins  = 64  // origins that wait for a decision at once
	MaxWaitingOfOrigin = 8   // requests of one origin that wait for it
	MaxDecidedOrigins  = 1000

	// maxBytesInFlight bounds the messages of the requests in flight on a
	// WebSocket, so that 32 of the largest size do not stay in memory.
	maxBytesInFlight = 4 << 20
	// requestIDWindow is how much of a line that is too long is searched for
	// its requestId; old clients write it first.
	requestIDWindow = 512
	// maxForeignLines is how many lines in a row may be something else than a
	// JSON object with a requestId: a speaker of another protocol.
	maxForeignLines = 8
	// maxDrainBytes bounds what is read and thrown away before a close, so that
	// the last answer is not lost to a reset.
	maxDrainBytes = 64 << 20
	// writeBatchBytes is about how much of one subscription goes into one write.
	writeBatchBytes = 64 << 10
)

// Default durations of a [Server].
const (
	DefaultWriteTimeout = 10 * time.Second       // one write to a client that does not read
	DefaultFirstRequest = 30 * time.Second       // from accept to the first valid request
	DefaultDrain        = 5 * time.Second        // reading on before an error close
	DefaultLinger       = 200 * time.Millisecond // the same at shutdown

	DefaultPing     = 20 * time.Second // between two pings on a WebSocket
	DefaultPong     = 40 * time.Second // without a sign of life of its client
	DefaultApproval = time.Minute      // for the user to decide about an origin
)
