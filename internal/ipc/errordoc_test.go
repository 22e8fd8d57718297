package ipc

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pedelec/pedelec-core/internal/fault"
)

var update = flag.Bool("update", false, "write golden files and generated documents instead of comparing them")

const errorDocPath = "../../docs/ERRORS.md"

func TestErrorDocumentIsFresh(t *testing.T) {
	compareGolden(t, errorDocPath, errorDoc())
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")) // a checkout on Windows
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not fresh (run go test -update):\n%s", path, diff)
	}
}

var groupTitles = map[string]string{
	"envelope":  "Envelope",
	"core":      "Daemon",
	"thread":    "Threads",
	"operation": "Operations",
	"workspace": "Workspaces",
	"settings":  "Settings",
	"tools":     "Frontend tools",
	"provider":  "Providers",
	"origins":   "Origins",
	"assets":    "Assets",
}

func errorDoc() []byte {
	var b bytes.Buffer
	b.WriteString(`# Error codes

<!-- Generated from internal/fault/code.go by: go test ./internal/ipc -run ErrorDocument -update -->

Every error that a client sees is an object ` + "`{code, message, details?}`" + `. The code is the contract; the message is a sentence for a person
and may change; details are facts for a program. HTTP is the status of an answer over HTTP that carries the code, exit the status of a
command that ends with it: 0 done, 1 failed, 2 wrong command line, 3 daemon not running.
`)
	group := ""
	for _, info := range fault.Table {
		if info.Group != group {
			group = info.Group
			fmt.Fprintf(&b, "\n## %s\n\n| code | meaning | HTTP | exit |\n| --- | --- | --- | --- |\n", groupTitles[group])
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d |\n", info.Code, info.Meaning, info.HTTP, info.Exit)
	}
	return b.Bytes()
}

func TestEachGroupOfErrorCodesHasATitleAndStandsTogether(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for _, info := range fault.Table {
		if groupTitles[info.Group] == "" {
			t.Errorf("%s: group %q has no title", info.Code, info.Group)
		}
		if info.Group != last && seen[info.Group] {
			t.Errorf("%s: group %q is torn apart", info.Code, info.Group)
		}
		last, seen[info.Group] = info.Group, true
	}
}
