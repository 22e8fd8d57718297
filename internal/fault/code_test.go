package fault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// declaredCodes reads every constant of type Code from the source.
func declaredCodes(t *testing.T) map[Code]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[Code]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		typ, ok := spec.Type.(*ast.Ident)
		if !ok || typ.Name != "Code" {
			return true
		}
		word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := codes[Code(word)]; twice {
			t.Errorf("%s and %s are both %s", other, spec.Names[0].Name, word)
		}
		codes[Code(word)] = spec.Names[0].Name
		return true
	})
	return codes
}

func TestEveryCodeIsInTheTableOnce(t *testing.T) {
	declared := declaredCodes(t)
	if len(declared) < 50 {
		t.Fatalf("only %d codes were found in the source", len(declared))
	}
	rows := map[Code]int{}
	for _, info := range Table {
		rows[info.Code]++
		if declared[info.Code] == "" {
			t.Errorf("%s is in the table and is no constant", info.Code)
		}
	}
	for code, name := range declared {
		if rows[code] != 1 {
			t.Errorf("%s (%s) has %d rows", name, code, rows[code])
		}
	}
}

func TestEveryRowOfTheTableIsSane(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	groups := map[string]bool{}
	last := ""
	for _, info := range Table {
		if !word.MatchString(string(info.Code)) {
			t.Errorf("%s is no code word", info.Code)
		}
		if !strings.HasSuffix(info.Meaning, ".") || info.Meaning[:1] != strings.ToUpper(info.Meaning[:1]) {
			t.Errorf("%s: %q is no sentence", info.Code, info.Meaning)
		}
		if info.HTTP < 400 || info.HTTP > 599 || http.StatusText(info.HTTP) == "" {
			t.Errorf("%s: HTTP status %d", info.Code, info.HTTP)
		}
		if info.Exit != ExitFailed && info.Exit != ExitNotRunning {
			t.Errorf("%s: exit status %d", info.Code, info.Exit)
		}
		if info.Group != last && groups[info.Group] {
			t.Errorf("%s: group %q is in two places", info.Code, info.Group)
		}
		last = info.Group
		groups[last] = true
		if info.Code.Info() != info {
			t.Errorf("%s finds another row", info.Code)
		}
	}
}

func TestAnUnknownCodeReadsAsInternal(t *testing.T) {
	if got := Code("NO_SUCH_CODE").Info(); got.Code != Internal {
		t.Errorf("got %s", got.Code)
	}
	if got := Code("").Info(); got.Code != Internal {
		t.Errorf("got %s", got.Code)
	}
}
