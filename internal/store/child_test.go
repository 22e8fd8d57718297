package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// dirEnv is the folder in which a child works.
const dirEnv = "STORE_TEST_DIR"

// childParts are what the test binary can be asked to do as a child.
var childParts = map[string]func() int{"work": childWork, "full": childFull, "upgrade": childUpgrade}

// runChild runs a part of this binary and returns what it printed.
func runChild(t *testing.T, part, dir, points string, prepare func(*exec.Cmd)) (out string, err error) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+part, dirEnv+"="+dir, fault.PointsEnv+"="+points)
	if prepare != nil {
		prepare(cmd)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if stderr.Len() > 0 {
		t.Logf("child: %s", stderr.String())
	}
	return string(stdout), err
}

// Threads of the crash test.
const (
	crashThreads   = 3
	crashRevisions = 6
)

// childWork does some of everything and prints a line for each change that was
// acknowledged.
func childWork() int {
	dir := os.Getenv(dirEnv)
	s := New(filepath.Join(dir, "core.db"))
	s.InstanceID, s.MaxJournalEvents, s.CompactFree = "instance-1", 1<<20, 1
	if os.Getenv("STORE_TEST_SCHEMA") != "" {
		withSchema3(nil)(s)
	}
	if err := s.Open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	done := func(err error, format string, args ...any) {
		if err == nil {
			fmt.Printf(format+"\n", args...)
		}
	}
	for r := uint64(1); r <= crashRevisions; r++ {
		for i := range crashThreads {
			id := "t" + strconv.Itoa(i)
			done(s.Commit(modelCommit(id, r, 2000)), "commit %s %d", id, r)
		}
		done(s.KV(Processes).Put("p", fmt.Append(nil, r)), "put %d", r)
		done(s.ReserveBlock("t0", 1000*r), "block %d", 1000*r)
	}
	for r := uint64(1); r <= 2*MaxKeysRemoved/300+2; r++ {
		_ = s.Commit(bigCommit("big", r, 300))
	}
	done(s.Commit(modelCommit("gone", 1, 10)), "commit gone 1")
	done(s.Delete("gone"), "delete gone")
	done(s.Delete("big"), "delete big")
	for range 100 { // until the committer has swept the rest of it
		if !s.trashLeft() {
			break
		}
		_ = s.KV(Origins).Put("x", nil)
	}
	_, err := s.Backup(context.Background(), filepath.Join(dir, "backup.db"))
	done(err, "backup")
	done(s.Close(), "close")
	return 0
}

// TestACrashAtAnyPointLosesNothingThatWasAcknowledged kills a child at each
// failpoint and looks at what it left.
func TestACrashAtAnyPointLosesNothingThatWasAcknowledged(t *testing.T) {
	tests := map[string][]string{ // point → hits at which the child is killed
		pointOpenBefore: {"1"}, pointCreateBefore: {"1"}, pointOpenDirty: {"1"}, pointMigrateCopied: {"1"}, pointMigrateBefore: {"1"},
		pointCommitBefore: {"1", "2", "17"}, pointUpdateBefore: {"1", "9", "30"}, pointUpdateAfter: {"1", "2", "29"},
		pointCommitFail: {"1", "14"}, pointCommitAfter: {"1", "5", "31", "50"}, pointReopenBefore: {"1"},
		pointSweepBefore: {"1", "2"}, pointReadBefore: {"1"},
		pointBackupBefore: {"1"}, pointBackupSync: {"1"},
		pointCompactBefore: {"1"}, pointCompactRename: {"1"}, pointCompactAfter: {"1"},
		pointCloseBefore: {"1"}, pointCloseClean: {"1"},
	}
	for _, point := range Points {
		if len(tests[point]) == 0 {
			t.Errorf("no crash at %s", point)
		}
	}
	for point, hits := range tests {
		for _, hit := range hits {
			t.Run(point+"@"+hit, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "core.db")
				points := point + "=kill@" + hit
				var prepare func(*exec.Cmd)
				switch point {
				case pointReopenBefore:
					points += ";" + pointCommitFail + "=error@5"
				case pointMigrateCopied, pointMigrateBefore:
					must(t, openAt(t, path).Close())
					prepare = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "STORE_TEST_SCHEMA=3") }
				}
				out, err := runChild(t, "work", dir, points, prepare)
				if err == nil {
					t.Fatalf("the child was not killed; it printed\n%s", out)
				}
				wholeCopies(t, path)
				checkAfterCrash(t, path, out, point != pointOpenBefore && point != pointCreateBefore)
			})
		}
	}
}

// wholeCopies opens each copy that was made before an upgrade: none is half written.
func wholeCopies(t *testing.T, path string) {
	t.Helper()
	copies, err := filepath.Glob(path + suffixOld + "*")
	must(t, err)
	for _, c := range copies {
		checkPages(t, c)
	}
}

func checkAfterCrash(t *testing.T, path, out string, began bool) {
	t.Helper()
	if began {
		checkPages(t, path)
	}
	s := openAt(t, path)
	if s.Damage() != nil {
		t.Fatalf("damaged: %s", s.Damage().Reason)
	}
	lines := bufio.NewScanner(strings.NewReader(out))
	acknowledged := map[string]uint64{}
	deleted := map[string]bool{}
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch f[0] {
		case "commit":
			acknowledged[f[1]], _ = strconv.ParseUint(f[2], 10, 64)
		case "delete":
			deleted[f[1]] = true
		case "block", "put":
			acknowledged[f[0]], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	live, err := s.Live("", 100)
	must(t, err)
	for _, id := range []string{"t0", "t1", "t2", "gone", "big"} {
		l, err := s.Load(id)
		known := err == nil
		wantEqual(t, slices.Contains(live, id), known)
		switch {
		case deleted[id] && known:
			t.Fatalf("%s is back", id)
		case !known && acknowledged[id] > 0 && id != "gone":
			t.Fatalf("%s is lost: %v", id, err)
		case !known:
			wantCode(t, err, fault.ThreadNotFound)
			drainSweep(t, s)
			wantEqual(t, keysOf(t, s, id), 0)
		case id != "big":
			r, err := checkThread(s, id)
			must(t, err)
			if r < acknowledged[id] || r > acknowledged[id]+1 {
				t.Fatalf("%s is at revision %d, acknowledged was %d", id, r, acknowledged[id])
			}
			// The thread goes on where it is.
			must(t, s.Commit(modelCommit(id, r+1, 0)))
			_, err = checkThread(s, id)
			must(t, err)
		default:
			page, err := s.Events(id, 0, 1<<40, 1<<30, 1<<40)
			must(t, err)
			wantEqual(t, uint64(len(page.Events)), l.Record.LatestSeq)
		}
	}
	all, err := s.KV(Processes).All()
	must(t, err)
	if v, _ := strconv.ParseUint(string(all["p"]), 10, 64); v < acknowledged["put"] {
		t.Fatalf("the ledger has %d, acknowledged was %d", v, acknowledged["put"])
	}
	if b := acknowledged["block"]; b == 1000*crashRevisions {
		l, err := s.Load("t0")
		must(t, err)
		if l.Record.Revision == crashRevisions && l.Record.BlockEnd < b {
			t.Fatalf("the block ends at %d, acknowledged was %d", l.Record.BlockEnd, b)
		}
	}
}

// checkPages lets bbolt look at every page of the file.
func checkPages(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	defer db.Close()
	must(t, db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	}))
}
