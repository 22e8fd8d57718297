package acp

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// TestTheAgentsErrorsAreReadAsTheCorpusSays reads testdata/errors.jsonl: what
// agents were seen, or are documented, to answer, and what that means.
func TestTheAgentsErrorsAreReadAsTheCorpusSays(t *testing.T) {
	text, err := os.ReadFile("testdata/errors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	classes := map[string]class{"failure": plainFailure, "auth": authRequired, "lost": unknownSession}
	n := 0
	for line := range strings.Lines(string(text)) {
		var row struct {
			Source string         `json:"source"`
			Method string         `json:"method"`
			Error  jsontext.Value `json:"error"`
			Class  string         `json:"class"`
		}
		unmarshal(t, []byte(line), &row)
		want, ok := classes[row.Class]
		m, err := jsonrpc.Decode([]byte(`{"id":1,"error":` + string(row.Error) + `}`))
		if err != nil || !ok || row.Source == "" {
			t.Fatalf("bad row %s: %v", line, err)
		}
		if got := classify(row.Method, m.Error); got != want {
			t.Errorf("%s %s: class %d, want %s", row.Method, row.Error, got, row.Class)
		}
		n++
	}
	if n < 10 {
		t.Errorf("the corpus has %d rows", n)
	}
}
