package tool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// defaultSuite is where the official JSON-Schema-Test-Suite is looked for when
// JSON_SCHEMA_TEST_SUITE does not name its folder; relative to this package.
const defaultSuite = "../../../shared/data/json-schema-test-suite"

// Why groups of the suite are left out. All of them need a document from
// another address, which no schema of a page gets.
const (
	needsDocument   = "refers to a document at another address"
	needsMetaschema = "is written in a draft of its own, which stands at another address"
)

// suiteExceptions are the groups that are left out: draft/file: group → reason.
var suiteExceptions = map[string]string{
	"draft2020-12/dynamicRef.json: strict-tree schema, guards against misspelled properties":              needsDocument,
	"draft2020-12/dynamicRef.json: tests for implementation dynamic anchor and reference link":            needsDocument,
	"draft2020-12/dynamicRef.json: $ref and $dynamicAnchor are independent of order - $defs first":        needsDocument,
	"draft2020-12/dynamicRef.json: $ref and $dynamicAnchor are independent of order - $ref first":         needsDocument,
	"draft2020-12/dynamicRef.json: $ref to $dynamicRef finds detached $dynamicAnchor":                     needsDocument,
	"draft2020-12/vocabulary.json: schema that uses custom metaschema with with no validation vocabulary": needsMetaschema,
	"draft2020-12/vocabulary.json: ignore unrecognized optional vocabulary":                               needsMetaschema,
	"draft2019-09/vocabulary.json: schema that uses custom metaschema with with no validation vocabulary": needsMetaschema,
	"draft2019-09/vocabulary.json: ignore unrecognized optional vocabulary":                               needsMetaschema,
}

type suiteGroup struct {
	Description string
	Schema      jsontext.Value
	Tests       []struct {
		Description string
		Data        jsontext.Value
		Valid       bool
	}
}

// TestOfficialSuite runs the required cases of every draft that is taken.
func TestOfficialSuite(t *testing.T) {
	root := os.Getenv("JSON_SCHEMA_TEST_SUITE")
	if root == "" {
		root = defaultSuite
	}
	if _, err := os.Stat(filepath.Join(root, "tests")); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the JSON-Schema-Test-Suite is not at %s; set JSON_SCHEMA_TEST_SUITE to its folder", root)
	}
	for _, draft := range []string{"draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"} {
		t.Run(draft, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(root, "tests", draft, "*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no cases: %v", err)
			}
			var ran, left int
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var groups []suiteGroup
				if err := json.Unmarshal(text, &groups, json.MatchCaseInsensitiveNames(true)); err != nil {
					t.Fatal(err)
				}
				for _, g := range groups {
					name := draft + "/" + filepath.Base(file) + ": " + g.Description
					if why := suiteExceptions[name]; why != "" {
						t.Logf("left out: %s: it %s", name, why)
						left += len(g.Tests)
						continue
					}
					ran += runGroup(t, draft, name, g)
				}
			}
			t.Logf("%d cases ran, %d are left out", ran, left)
		})
	}
}

// runGroup returns how many cases it ran.
func runGroup(t *testing.T, draft, name string, g suiteGroup) int {
	t.Helper()
	root, _, err := decode(inDraft(draft, g.Schema), 1000)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	version, err := draftOf(root)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return 0
	}
	p, err := newProgram(root, version)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return 0
	}
	l := openLedger(p)
	for _, c := range g.Tests {
		v, facts, err := decode(c.Data, 1000)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, c.Description, err)
		}
		if err := p.validate(v, facts.depth, time.Now); (err == nil) != c.Valid {
			t.Errorf("%s: %s: got %v, want valid = %t", name, c.Description, err, c.Valid)
		}
		l.check(t)
	}
	return len(g.Tests)
}

// inDraft adds the $schema of a draft to a schema that is an object without.
func inDraft(draft string, schema jsontext.Value) jsontext.Value {
	uris := map[string]string{
		"draft4":       "http://json-schema.org/draft-04/schema#",
		"draft6":       "http://json-schema.org/draft-06/schema#",
		"draft7":       "http://json-schema.org/draft-07/schema#",
		"draft2019-09": "https://json-schema.org/draft/2019-09/schema",
		"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
	}
	text := strings.TrimSpace(string(schema))
	rest, isObject := strings.CutPrefix(text, "{")
	if !isObject || strings.Contains(text, `"$schema"`) {
		return slices.Clone(schema)
	}
	if rest = strings.TrimSpace(rest); rest != "}" {
		rest = "," + rest
	}
	return jsontext.Value(`{"$schema":"` + uris[draft] + `"` + rest)
}
