package thread

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// detailsLimit is as much as a line of the wire protocol has room for.
const detailsLimit = 8 << 10

func TestErrorDetailsAreCut(t *testing.T) {
	for name, details := range map[string]map[string]any{
		"one long string":        {"threadId": "t1", "stderr": strings.Repeat("ü", 20_000)},
		"a string of controls":   {"threadId": "t1", "stderr": strings.Repeat("\x01", 20_000)},
		"bytes that are no text": {"threadId": "t1", "stderr": strings.Repeat("\xff", 20_000)},
		"two long strings":       {"threadId": "t1", "a": strings.Repeat("a", 9000), "b": strings.Repeat("b", 9000)},
		"a large object":         {"threadId": "t1", "data": map[string]any{"x": strings.Repeat("x", 9000)}},
		"a long name":            {"threadId": "t1", strings.Repeat("n", 9000): 1},
		"not JSON":               {"threadId": "t1", "stderr": strings.Repeat("x", 9000), "f": func() {}},
	} {
		t.Run(name, func(t *testing.T) {
			got := appendDetails(nil, encodeMembers(details), detailsLimit)
			if len(got) > detailsLimit {
				t.Errorf("%d bytes", len(got))
			}
			if !jsontext.Value(got).IsValid() || !utf8.Valid(got) {
				t.Errorf("not JSON: %.100s", got)
			}
			for _, kept := range []string{`"threadId":"t1"`, `"detailsTruncated":true`} {
				if !strings.Contains(string(got), kept) {
					t.Errorf("%s is missing: %.100s", kept, got)
				}
			}
			if name == "one long string" && len(got) < detailsLimit*9/10 {
				t.Errorf("only %d bytes are left", len(got))
			}
		})
	}
}

func TestErrorDetailsNeverHaveTwoMembersOfOneName(t *testing.T) {
	long := strings.Repeat("x", detailsLimit)
	for name, details := range map[string]map[string]any{
		"names that are no text":     {"\xd6": "0", "\xb1": "0"},
		"a name that is ours":        {"detailsTruncated": "no", "stderr": long},
		"both, with too much behind": {"\xd6": long, "\xb1\xb1": "0", "detailsTruncated": 1},
	} {
		if got := appendDetails(nil, encodeMembers(details), detailsLimit); !jsontext.Value(got).IsValid() {
			t.Errorf("%s: not JSON: %.100s", name, got)
		}
	}
}

func TestSmallErrorDetailsAreKeptAsTheyAre(t *testing.T) {
	got := string(appendDetails(nil, encodeMembers(map[string]any{"z": []int{1}, "a": nil, "m": "x"}), detailsLimit))
	if want := `{"a":null,"m":"x","z":[1]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzErrorDetails builds errors of what agents and pages say: whatever that is, the
// error is JSON, keeps its code, and stays within its bound.
func FuzzErrorDetails(f *testing.F) {
	f.Add("message", "stderr", "a line\n", "exitStatus", "1")
	f.Add("m", "stderr", strings.Repeat("a", detailsLimit), "b", "c")
	f.Add("\xff", "a\"b", strings.Repeat("\x00", 3000), "", strings.Repeat("ä", detailsLimit))
	f.Fuzz(func(t *testing.T, message, name1, text1, name2, text2 string) {
		e := fault.New(fault.ProviderRequestFailed, message).With(name1, text1).With(name2, text2)
		out := AppendError(nil, e, detailsLimit)
		var body struct {
			Code string `json:"code"`
		}
		if err := json.Unmarshal(out, &body); err != nil || body.Code != string(fault.ProviderRequestFailed) {
			t.Fatalf("%q: %v", out, err)
		}
		details := appendDetails(nil, encodeMembers(e.Details), detailsLimit)
		if len(details) > detailsLimit || !jsontext.Value(details).IsValid() {
			t.Fatalf("details of %d bytes: %q", len(details), details)
		}
	})
}
