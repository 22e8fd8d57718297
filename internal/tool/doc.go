// Package tool is the rules of frontend tools: functions that live in a web
// page and that an agent calls through the daemon.
//
// It owns the manifest (what a page may register) and its limits.
//
// It never does I/O, never looks at a clock and knows nothing of threads or
// connections.
//
// Concurrency: values are immutable after they were checked; every function is
// pure.
//
// Failure model: a manifest that breaks a rule is refused as a whole with
// TOOLS_MANIFEST_INVALID and the name of the tool.
package tool
