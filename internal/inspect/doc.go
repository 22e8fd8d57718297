// Package inspect serves a page on which the operator looks at the daemon: its
// threads, what happens in one of them, the tool request that is out, and the
// agents that run with their memory.
//
// It owns the files of the page, the links that open it and the browser sessions
// that come of them. A link carries a code in the part of the URL that browsers
// send nowhere; it is good once and for a minute. The page exchanges it for a
// cookie. Of both only hashes are kept, and neither is ever logged.
//
// It never changes anything, and an observer must not change what it observes: a
// subscription would count as a client of a thread that ends with its last one,
// would keep the thread loaded, and would make the end of a thread wait until its
// events are written. So there are no subscriptions: a stream reads snapshot and
// journal once in a while, and what an agent is saying comes as the text of the
// snapshot, not as deltas.
//
// Concurrency: everything is safe for concurrent use. It starts no goroutine; a
// stream lives on that of its request. [Inspector.Close] ends all of them, and the
// HTTP server waits for them.
//
// Failure model: without a session every question about the daemon is answered
// with 401, and the page says how to get one. A reader that stalls is cut off; the
// page connects again and goes on behind the last event that it saw. A cookie
// belongs to an address, not to a port, so the user behind a connection is
// checked too, where the system tells.
package inspect
