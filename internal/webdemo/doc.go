// Package webdemo serves one web page that shows what a page can do with the
// daemon: approval, chat, a function that the agent calls, files, end and resume,
// recovery after a reload.
//
// It owns the files of the page, which are part of the program, and the answer to
// what the page cannot know by itself: where the daemon listens and which command
// approves the page. It never talks to the daemon: the page does, as any page
// would, over the module in client/js.
//
// Concurrency: the handler keeps nothing; Options.Find may be called by several
// requests at once.
//
// Failure model: when the daemon cannot be found the page learns so (503), says it,
// and asks again. Requests under another name than the loopback one are refused,
// so that no other page can reach it by a name of its own.
package webdemo
