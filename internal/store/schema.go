package store

import (
	"encoding/binary"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// The tree of core.db. All buckets are flat: what belongs to a thread has keys
// that begin with the thread's id and a zero byte, so that a part of it can be
// read or removed without the rest.
//
//	meta         schema, instance, created, clean
//	threads      <threadId>                → header, record
//	live         <threadId>                → nothing; names threads that are not ended
//	blocks       <threadId>                → last sequence number reserved after the record was written
//	skills       <threadId>                → guidance and tools, written at creation
//	journal      <threadId> 0 <seq BE>     → event (all kinds but assistant_delta)
//	operations   <threadId> 0 <operationId> → operation
//	trash        <threadId>                → nothing; a deleted thread of which keys are left
//	processes    <runtimeId>               → the ledger of child processes
//	origins      <origin>                  → approval
var (
	bucketMeta       = []byte("meta")
	bucketThreads    = []byte("threads")
	bucketLive       = []byte("live")
	bucketBlocks     = []byte("blocks")
	bucketSkills     = []byte("skills")
	bucketJournal    = []byte("journal")
	bucketOperations = []byte("operations")
	bucketTrash      = []byte("trash")
	bucketProcesses  = []byte(Processes)
	bucketOrigins    = []byte(Origins)

	allBuckets = [][]byte{
		bucketMeta, bucketThreads, bucketLive, bucketBlocks, bucketSkills, bucketJournal,
		bucketOperations, bucketTrash, bucketProcesses, bucketOrigins,
	}
	// rangeBuckets hold many keys of a thread.
	rangeBuckets = [][]byte{bucketJournal, bucketOperations}
)

// Keys of the meta bucket.
var (
	metaSchema   = []byte("schema")   // uint32 BE
	metaInstance = []byte("instance") // id of the daemon instance that opened the file last
	metaCreated  = []byte("created")  // RFC 3339, UTC
	metaClean    = []byte("clean")    // present = closed by Close
)

// SchemaVersion is the version of the tree and the values in it. It changes
// together with a new entry in migrations.
const SchemaVersion = 1

// A migration lifts the file from the schema before it.
type migration struct {
	to    uint32
	apply func(tx *bolt.Tx) error
}

// migrations are the steps from schema 1 on, in order.
var migrations []migration

// Limits of keys and of one change.
const (
	maxIDBytes   = 512      // of a thread, operation, runtime or origin; bbolt allows 32,768
	maxItemBytes = 64 << 20 // of one change; events are ≤ 4 MiB a thread while they are held
	seqBytes     = 8
	maxKeyBytes  = 2*maxIDBytes + 1 // of the buckets above
)

// validID reports whether an id can be a key. A zero byte would end it early.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDBytes && strings.IndexByte(id, 0) < 0
}

// appendPrefix appends what all keys of a thread in a range bucket begin with.
func appendPrefix(b []byte, threadID string) []byte {
	return append(append(b, threadID...), 0)
}

func appendSeqKey(b []byte, threadID string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(appendPrefix(b, threadID), seq)
}

func appendOperationKey(b []byte, threadID, operationID string) []byte {
	return append(appendPrefix(b, threadID), operationID...)
}

// seqOf returns the sequence number at the end of a journal key.
func seqOf(key []byte) uint64 {
	if len(key) < seqBytes {
		return 0
	}
	return binary.BigEndian.Uint64(key[len(key)-seqBytes:])
}
