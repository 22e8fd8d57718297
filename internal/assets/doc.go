// Package assets moves files between pages and agents: it makes tickets, and
// serves the transfers that they pay for over HTTP on loopback.
//
// It owns the rule for public paths, the tickets, the uploads and downloads that
// run, and every status, header and body of the ticket URLs. The files lie in
// the assets folder of a thread's workspace, which package workspace walks
// without ever following a link.
//
// It never decides who may act on a thread ([Threads] does), never holds a file
// in memory, and shows no path to a page but public ones.
//
//	PUT     /uploads/<id>      201 {"path"}
//	GET     /downloads/<id>    200, 206, 304, 412, 416
//	HEAD    /downloads/<id>    the same without a body
//	OPTIONS on either          204, for an unknown id too
//
// An upload is written to a temporary file in the folder of its target, forced
// to disk and renamed, so a file is there whole or not at all. The temporary
// file's name is in the thread's record while it exists ([Threads].Stage), for
// [RemoveStaged] to find after a crash.
//
// Concurrency: all methods may be called at once. One mutex guards the tickets
// and the list of transfers; under it only memory is touched. A transfer runs in
// the goroutine of its HTTP request. When a thread's end begins,
// [Manager.Abort] makes its tickets void, cuts its transfers off and waits until
// they have let go of their files: nothing appears in the workspace after that.
//
// Failure model: every error that a client sees is a *fault.Error; over HTTP it
// is {"error":{code, message, details?}}, with the headers that let the page
// read it, and the rest of a refused body is read and thrown away, since a
// browser whose upload is cut off reports a network error instead. An upload
// that fails leaves no file. A ticket that a PUT has opened is used up whatever
// comes of it; a wrong token costs nothing.
package assets
