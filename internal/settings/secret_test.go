package settings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Values of the file never reach a problem or an error, wherever they stand:
// those texts go to logs and to clients.
func TestSecretsNeverReachAProblemOrAnError(t *testing.T) {
	const canary = "canary-0123456789"
	for _, content := range []string{
		`{"providerSettings":{"ollama":{"apiKey":["` + canary + `"],"tavilyApiKey":{"x":"` + canary + `"}}}}`,
		`{"providerSettings":{"ollama":"` + canary + `"}}`,
		`{"providerSettings":{"ollama":{"baseUrl":"ftp://user:` + canary + `@host"}}}`,
		`{"providerSettings":{"ollama":{"baseUrl":"http://user:` + canary + `@ho st"}}}`,
		`{"providerSettings":{"codex":{"env":{"A":["` + canary + `"],"B":"` + canary + `\u0000"},"command":["x","` + canary + `\u0000"]}}}`,
		`{"providerSettings":{"codex":{"env":{"KEY":"` + canary + `"`,
		`{"apiKey":"` + canary + `" oops}`,
		`{"apiKey":"` + canary + "\xff" + `"}`,
		`{"apiKey":"` + canary + `\uD800"}`,
		`"` + canary + `"`,
	} {
		f := newFile(t, content)
		for _, p := range f.Problems() {
			if strings.Contains(p.String(), canary) {
				t.Errorf("%s: problem %q", content, p)
			}
		}
		_, err := f.DefaultProvider()
		if strings.Contains(fmt.Sprint(err), canary) {
			t.Errorf("%s: error %v", content, err)
		}
		if len(f.Problems()) == 0 {
			t.Errorf("%s has no problem", content)
		}
	}
}

func TestAnInterruptedWriteLeavesTheOldFileOrTheNewOne(t *testing.T) {
	for point, want := range map[string]string{"settings.write.before-rename": "codex", "settings.write.after-rename": "claude"} {
		t.Run(point, func(t *testing.T) {
			f := newFile(t, `{"defaultProvider":"codex"}`)
			armed(t, point+"=error")
			if _, err := f.Update(t.Context(), []byte(`{"defaultProvider":"claude"}`)); err == nil {
				t.Fatal("the write is said to have worked")
			}
			got, err := New(f.Path()).DefaultProvider()
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
