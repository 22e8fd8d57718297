package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

const guaranteesDoc = "docs/GUARANTEES.md"

var (
	promised = regexp.MustCompile(`(?m)^- \*\*([A-Z]\d+)\. `)
	proofRow = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| (.+) \|$`)
	proof    = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")
)

// TestEveryGuaranteeNamesTheTestsThatProveIt holds the table of proofs to the
// promises above it and to the tests that there are.
func TestEveryGuaranteeNamesTheTestsThatProveIt(t *testing.T) {
	text := readDoc(t, guaranteesDoc)
	var promises, proven []string
	for _, m := range promised.FindAllStringSubmatch(text, -1) {
		promises = append(promises, m[1])
	}
	for _, row := range proofRow.FindAllStringSubmatch(text, -1) {
		proven = append(proven, row[1])
		tests := proof.FindAllStringSubmatch(row[2], -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test for %s", guaranteesDoc, row[1])
		}
		for _, m := range tests {
			if !hasTest(t, filepath.Join("internal", m[1]), m[2]) {
				t.Errorf("%s proves %s by %s of internal/%s, which there is not", guaranteesDoc, row[1], m[2], m[1])
			}
		}
	}
	if len(promises) < 20 || !slices.Equal(promises, proven) {
		t.Errorf("%s promises\n%v and proves\n%v", guaranteesDoc, promises, proven)
	}
}

// hasTest reports whether a test stands in a folder or below it.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	for _, pattern := range []string{"*_test.go", "*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range tree.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
					return true
				}
			}
		}
	}
	return false
}

var (
	link       = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	codeBlock  = regexp.MustCompile("(?ms)^```.*?^```$")
	sourcePath = regexp.MustCompile("`((?:internal|cmd|client|docs)/[A-Za-z0-9_./-]*)`")
	makeTarget = regexp.MustCompile("(?m)(?:`|^ *)make ([a-z0-9-]+)")
)

// TestDocumentsLeadToWhatExists follows the links of the documents, also to
// headings, and looks for the files and the targets of make that they name.
func TestDocumentsLeadToWhatExists(t *testing.T) {
	makefile := readDoc(t, "Makefile")
	for _, doc := range documents(t) {
		text := readDoc(t, doc)
		for _, m := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			target, anchor := m[1], m[2]
			if strings.Contains(target, "://") {
				continue
			}
			path := doc
			if target != "" {
				path = filepath.Join(filepath.Dir(doc), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s leads to %s: %v", doc, target, err)
			} else if anchor != "" && !slices.Contains(anchors(readDoc(t, path)), anchor) {
				t.Errorf("%s leads to %s#%s, a heading that there is not", doc, path, anchor)
			}
		}
		for _, m := range sourcePath.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s: %v", doc, m[1], err)
			}
		}
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s names make %s, a target that there is not", doc, m[1])
			}
		}
	}
}

const architectureDoc = "docs/ARCHITECTURE.md"

var packageRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/-]+)` \\| .* \\| ([a-z0-9/, ]+) \\|$")

// TestTheTableOfPackagesIsTheOneThatIsEnforced compares the table of imports that
// people read with the one that tests hold packages to, and with the folders.
func TestTheTableOfPackagesIsTheOneThatIsEnforced(t *testing.T) {
	told := map[string][]string{}
	for _, m := range packageRow.FindAllStringSubmatch(readDoc(t, architectureDoc), -1) {
		told[m[1]] = []string{}
		switch m[2] {
		case "nothing", "standard library":
		case "everything":
			told[m[1]] = []string{anything}
		default:
			for name := range strings.SplitSeq(m[2], ", ") {
				if !strings.Contains(name, "/") {
					name = "internal/" + name
				}
				told[m[1]] = append(told[m[1]], name)
			}
		}
	}
	if diff := cmp.Diff(mayImport, told); diff != "" {
		t.Errorf("%s tells of other imports than are enforced (+):\n%s", architectureDoc, diff)
	}
	for name := range mayImport {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the table names a package that there is not: %v", err)
		}
	}
}

// documents returns the paths of all documents for people.
func documents(t *testing.T) []string {
	t.Helper()
	paths := []string{"README.md", "client/js/README.md"}
	docs, err := filepath.Glob("docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	return append(paths, docs...)
}

// anchors returns the names under which links reach the headings of a document.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, m[1]))
	}
	return names
}

func readDoc(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
