// Package arch holds the rules that keep the packages apart: who may import
// whom, what the pure packages must not touch, and how large a file may be.
// It consists of tests only.
package arch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const module = "github.com/pedelec/pedelec-core"

// maxLines is the length over which a Go file is split.
const maxLines = 600

// anything marks a package that may import every other one.
const anything = "*"

// mayImport is the one direction of imports: package → what it may import of
// this module. A family such as internal/provider stands for its subfolders
// too; inside a family imports are free.
var mayImport = map[string][]string{
	"cmd/pedelec-core":   {anything},
	"internal/e2e":       {anything}, // end-to-end tests and the programs that they start
	"internal/ipc":       {"internal/thread", "internal/loopback", "internal/fault"},
	"internal/assets":    {"internal/thread", "internal/workspace", "internal/loopback", "internal/fault"},
	"internal/inspect":   {"internal/thread", "internal/loopback", "internal/fault"},
	"internal/mcp":       {"internal/thread", "internal/tool", "internal/loopback", "internal/fault"},
	"internal/lifecycle": {"internal/thread", "internal/tool", "internal/fault"},
	"internal/provider":  {"internal/thread", "internal/proc", "internal/fault"},
	"internal/store":     {"internal/thread", "internal/fault"},
	"internal/workspace": {"internal/fault"},
	"internal/proc":      {"internal/fault"},
	"internal/loopback":  {"internal/fault"},
	"internal/settings":  {"internal/fault"},
	"internal/thread":    {"internal/tool", "internal/fault"},
	"internal/tool":      {"internal/fault"},
	"internal/fault":     {},
	"internal/webdemo":   {"internal/loopback", "client/js"},
	"internal/fuzzall":   {}, // the program behind make fuzz
	"internal/leak":      {}, // for the TestMain of the others
	"client/js":          {}, // the JavaScript module; Go only embeds it
}

// pure are the packages that do no I/O and read no clock.
var pure = []string{"internal/thread", "internal/tool"}

// impureImports are what a pure package must not import, subfolders included.
var impureImports = []string{"os", "net", "go.etcd.io/bbolt"}

// clockCalls are the functions of package time that read or follow the clock.
var clockCalls = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

// platforms are the systems whose files are looked at; files of one system
// only are seen by no other.
var platforms = []string{"linux", "darwin", "windows"}

// goPackage is the part of `go list -json` that the rules look at.
type goPackage struct {
	Dir        string
	ImportPath string
	Doc        string
	Standard   bool
	GoFiles    []string
	Imports    []string

	TestGoFiles  []string
	XTestGoFiles []string
}

// name returns the package's folder inside the module.
func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func TestImportsGoOneWay(t *testing.T) {
	told := map[string]bool{} // most imports are the same on every system
	for _, goos := range platforms {
		for _, p := range list(t, goos) {
			for _, imported := range p.Imports {
				why := refuse(p.name(), imported)
				if why == "" || told[p.name()+why] {
					continue
				}
				told[p.name()+why] = true
				t.Errorf("%s (%s): %s", p.name(), goos, why)
			}
		}
	}
}

func TestRefuseKnowsTheGraph(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		refused            bool
	}{
		{"internal/store", module + "/internal/thread", false},
		{"internal/thread", module + "/internal/store", true},
		{"internal/fault", "strings", false},
		{"internal/fault", "github.com/rs/zerolog", true},
		{"internal/provider/acp", module + "/internal/proc", false},
		{"internal/provider/acp", module + "/internal/provider", false},
		{"internal/provider/acp", module + "/internal/lifecycle", true},
		{"internal/thread", "time", false},
		{"internal/thread", "os/exec", true},
		{"internal/tool", "go.etcd.io/bbolt", true},
		{"internal/fresh", "strings", true},
	} {
		if got := refuse(c.importer, c.imported) != ""; got != c.refused {
			t.Errorf("%s importing %s: refused = %t, want %t", c.importer, c.imported, got, c.refused)
		}
	}
}

// refuse returns why a package must not import another one, or "".
func refuse(importer, imported string) string {
	family := familyOf(importer)
	allowed, known := mayImport[family]
	if !known {
		return "is not in the table of packages; decide what it may import"
	}
	if family == "internal/fault" && isThirdParty(imported) {
		return "imports " + imported + ", but it may use the standard library only"
	}
	if slices.Contains(pure, family) && slices.ContainsFunc(impureImports, func(bad string) bool { return within(imported, bad) }) {
		return "imports " + imported + ", but it is pure"
	}
	target, ours := strings.CutPrefix(imported, module+"/")
	if !ours || slices.Contains(allowed, anything) {
		return ""
	}
	if targetFamily := familyOf(target); targetFamily != family && !slices.Contains(allowed, targetFamily) {
		return "imports " + target + ", which is not among " + strings.Join(allowed, ", ")
	}
	return ""
}

// familyOf returns the entry of the table to which a package belongs, or the
// package itself.
func familyOf(pkg string) string {
	for family := range maps.Keys(mayImport) {
		if within(pkg, family) {
			return family
		}
	}
	return pkg
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func isThirdParty(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(first, ".")
}

func TestPurePackagesReadNoClock(t *testing.T) {
	for _, p := range list(t, "linux") {
		if !slices.Contains(pure, familyOf(p.name())) {
			continue
		}
		for _, file := range p.GoFiles {
			for _, call := range clockReads(t, filepath.Join(p.Dir, file)) {
				t.Errorf("%s: time is an input of this package", call)
			}
		}
	}
}

// clockReads returns the places of a file that use one of clockCalls.
func clockReads(t *testing.T, path string) []string {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := importName(tree, "time")
	var found []string
	ast.Inspect(tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && slices.Contains(clockCalls, sel.Sel.Name) {
			found = append(found, fmt.Sprintf("%s: time.%s", files.Position(sel.Pos()), sel.Sel.Name))
		}
		return true
	})
	return found
}

// importName returns the name under which a file knows an import.
func importName(tree *ast.File, path string) string {
	for _, spec := range tree.Imports {
		if spec.Path.Value == `"`+path+`"` && spec.Name != nil {
			return spec.Name.Name
		}
	}
	return path
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range list(t, "linux") {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.name())
		}
	}
}

// TestGoroutinesAreWatchedForLeaks asks that the tests of every package which starts
// goroutines fail when one is left.
func TestGoroutinesAreWatchedForLeaks(t *testing.T) {
	for _, p := range list(t, "linux") { // all tests run there
		tests := slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		if len(tests) == 0 {
			continue // its users are checked
		}
		place := ""
		for _, file := range p.GoFiles {
			place = cmp.Or(place, startOfGoroutine(t, filepath.Join(p.Dir, file)))
		}
		if place != "" && !slices.ContainsFunc(tests, func(file string) bool { return looksForLeaks(t, filepath.Join(p.Dir, file)) }) {
			t.Errorf("%s starts a goroutine (%s), and no TestMain of it looks for leaks", p.name(), place)
		}
	}
}

// startOfGoroutine returns a place in a file that starts a goroutine, by a go
// statement or the method Go of a group, or "".
func startOfGoroutine(t *testing.T, path string) (place string) {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	at := func(n ast.Node) string {
		return fmt.Sprintf("%s:%d", filepath.Base(path), files.Position(n.Pos()).Line)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			place = at(n)
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				place = at(n)
			}
		}
		return place == ""
	})
	return place
}

// looksForLeaks reports whether a file has a TestMain that uses goleak.
func looksForLeaks(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(text, []byte("\nfunc TestMain(")) && bytes.Contains(text, []byte("leak."))
}

// testingDoc has the table of what is fuzzed.
const testingDoc = "docs/TESTING.md"

// TestEveryFuzzTestStandsInTheTable compares the table of fuzz tests with the code.
func TestEveryFuzzTestStandsInTheTable(t *testing.T) {
	text, err := os.ReadFile(testingDoc)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z/]+)` `(Fuzz[A-Za-z]+)`").FindAllSubmatch(text, -1) {
		told[string(m[1])+" "+string(m[2])] = true
	}
	for _, p := range list(t, "linux") {
		folder := strings.TrimPrefix(strings.TrimSuffix(p.name(), "/pedelec-core"), "internal/")
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			for _, name := range fuzzTests(t, filepath.Join(p.Dir, file)) {
				if entry := folder + " " + name; told[entry] {
					delete(told, entry)
				} else {
					t.Errorf("%s of %s is not in the table of %s", name, folder, testingDoc)
				}
			}
		}
	}
	for entry := range told {
		t.Errorf("%s tells of %s, which there is not", testingDoc, entry)
	}
}

func fuzzTests(t *testing.T, path string) (names []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

func TestNoFileIsTooLong(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines; split it, %d are allowed", path, lines, maxLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// list returns the packages of this module as one system sees them.
func list(t *testing.T, goos string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=Dir,ImportPath,Doc,Standard,GoFiles,Imports,TestGoFiles,XTestGoFiles", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v\n%s", goos, err, stderr.Bytes())
	}
	var packages []goPackage
	for dec := jsontext.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := json.UnmarshalDecode(dec, &p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath != module {
			packages = append(packages, p)
		}
	}
	slices.SortFunc(packages, func(a, b goPackage) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
	return packages
}
