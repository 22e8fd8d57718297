package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// failpoints returns the names of all places in the program where a test may make
// it fail, as its source has them: whoever adds one is tested at once.
func failpoints(t testing.TB) []string {
	t.Helper()
	root := moduleRoot(t)
	var names []string
	for _, dir := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			found, err := pointsOf(path)
			names = append(names, found...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// pointsOf returns the failpoints of one folder: the arguments of fault.Point, as
// literals or as constants of the same package.
func pointsOf(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	consts := map[string]string{}
	var used, names []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, value := range n.Values {
					if s, ok := stringLiteral(value); ok {
						consts[n.Names[i].Name] = s
					}
				}
			case *ast.CallExpr:
				if !isFaultPoint(n) {
					break
				}
				if s, ok := stringLiteral(n.Args[0]); ok {
					names = append(names, s)
				} else if id, ok := n.Args[0].(*ast.Ident); ok {
					used = append(used, id.Name)
				}
			}
			return true
		})
	}
	for _, id := range used {
		if s, ok := consts[id]; ok {
			names = append(names, s)
		}
	}
	return names, nil
}

func isFaultPoint(call *ast.CallExpr) bool {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "Point" || len(call.Args) != 1 {
		return false
	}
	pkg, ok := fun.X.(*ast.Ident)
	return ok && pkg.Name == "fault"
}

func stringLiteral(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

func TestFailpointsAreFound(t *testing.T) {
	names := failpoints(t)
	for _, want := range []string{"store.commit.after", "store.commit.fail", "lifecycle.commit.before"} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is not among the failpoints %v", want, names)
		}
	}
	for _, name := range names {
		if strings.Count(name, ".") < 1 || strings.ContainsAny(name, "=; @") {
			t.Errorf("%q is no name of a failpoint", name)
		}
	}
}
