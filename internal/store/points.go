package store

// Names of the failpoints, see fault.Point.
const (
	pointOpenBefore    = "store.open.before"    // nothing was opened yet
	pointCreateBefore  = "store.create.before"  // a fresh file is complete, under its temporary name
	pointOpenDirty     = "store.open.dirty"     // the file is marked as in use
	pointMigrateCopied = "store.migrate.copied" // the copy of the older file is complete, under its temporary name
	pointMigrateBefore = "store.migrate.before" // it has its name
	pointCommitBefore  = "store.commit.before"  // a batch was taken from the queue
	pointUpdateBefore  = "store.update.before"  // before each item of a batch is applied
	pointUpdateAfter   = "store.update.after"   // all items are applied, nothing is written
	pointCommitFail    = "store.commit.fail"    // an error here reads as if bbolt's commit had failed, though it succeeded
	pointCommitAfter   = "store.commit.after"   // on disk, nobody was told
	pointReopenBefore  = "store.reopen.before"  // the file was closed after a failure
	pointSweepBefore   = "store.sweep.before"   // before the next part of a deleted thread is removed
	pointReadBefore    = "store.read.before"    // before each read
	pointBackupBefore  = "store.backup.before"  // the new file exists and is empty
	pointBackupSync    = "store.backup.sync"    // it is written, not synced
	pointCompactBefore = "store.compact.before" // before the copy begins
	pointCompactRename = "store.compact.rename" // the copy is complete and synced
	pointCompactAfter  = "store.compact.after"  // the copy has taken the file's place
	pointCloseBefore   = "store.close.before"   // the queue is empty
	pointCloseClean    = "store.close.clean"    // the file is marked as closed
)

// Points lists every failpoint of this package, for the crash tests.
var Points = []string{
	pointOpenBefore, pointCreateBefore, pointOpenDirty, pointMigrateCopied, pointMigrateBefore,
	pointCommitBefore, pointUpdateBefore, pointUpdateAfter, pointCommitFail, pointCommitAfter, pointReopenBefore,
	pointSweepBefore, pointReadBefore,
	pointBackupBefore, pointBackupSync,
	pointCompactBefore, pointCompactRename, pointCompactAfter,
	pointCloseBefore, pointCloseClean,
}
