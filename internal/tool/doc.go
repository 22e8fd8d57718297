// Package tool is the rules of frontend tools: functions that live in a web
// page and that an agent calls through the daemon.
//
// It owns the manifest (what a page may register), the compiled argument
// schemas, the check of a call's arguments under a budget, the key by which
// equal calls are recognised, the names under which models know the tools, and
// the limits of all of these.
//
// It never does I/O, never looks at a clock (one is passed in where time is
// measured), never loads a schema from anywhere, and knows nothing of threads
// or connections.
//
// Concurrency: values are immutable after they were checked. A [Schema] and a
// [Set] may be used by many goroutines; checks against one schema take turns.
//
// Failure model: a manifest that breaks a rule is refused as a whole with
// TOOLS_MANIFEST_INVALID and the name of the tool; arguments that break one,
// or that would cost more than the budget, with TOOL_ARGS_INVALID and the
// place. Schemas and arguments come from strangers: nothing they can say costs
// more than a bounded time and memory.
package tool
