// Package workspace is the folders in which agents work: it makes them, checks
// them, and removes those that are the daemon's own.
//
// It owns the managed root (<home>/workspaces, one folder a thread), the rule
// for paths that an application names, the private folder .pedelec-runtime in
// every workspace, and the marker file .pedelec-workspace.json.
//
// It never deletes anything in an application's folder that it did not write
// itself, never follows a symbolic link below a workspace, and knows nothing of
// threads but their ids.
//
// Below a workspace an agent may change anything at any moment, so paths there
// are walked one component at a time (see openDir): a link that is swapped in
// between two steps makes the step fail, it never leads out. [Dir] is that walk
// for others, through the assets folder.
//
//	<home>/workspaces/<threadId>/          managed, removed with the daemon
//	<workspace>/.pedelec-workspace.json    marker: SDK version and origin, for people
//	<workspace>/.pedelec-runtime/          private, made on first use
//	    .gitignore                         "*"; written again if a crash left it empty
//	    assets/                            files shared between page and agent
//	    threads/<threadId>/                what the agent of one thread has to read
//
// Concurrency: the fields of a [Manager] must be set before it is used; all methods
// may be called at once. Creations that share a folder know of each other until
// their outcome is known, so that one that fails takes nothing from another. Handles on folders are
// opened per call and closed before it returns; a [Dir] is its caller's to close.
//
// Failure model: CreateManaged and CreateCustom return *fault.Error with
// WORKSPACE_PATH_INVALID or WORKSPACE_CREATE_FAILED and leave nothing behind;
// the other methods return plain errors for the caller to wrap. A folder that
// cannot be removed is tried again a few times and then reported as a
// [Leftover]; it is never fatal.
package workspace
