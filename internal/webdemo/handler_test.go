package webdemo

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/client/js"
)

const testPort = 4567

func ask(method, target, host string, find func() (Config, error)) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	w := httptest.NewRecorder()
	Handler(Options{Port: testPort, Find: find}).ServeHTTP(w, r)
	return w.Result()
}

func found() (Config, error) {
	return Config{Endpoint: "127.0.0.1:1", Approve: "pedelec-core origins approve http://127.0.0.1:4567", Scripted: true}, nil
}

func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		name, method, target, host string
		status                     int
		contentType, says          string
	}{
		{"the page", "GET", "/", "127.0.0.1:4567", 200, "text/html", "<title>"},
		{"by the name localhost", "GET", "/", "localhost:4567", 200, "text/html", "<title>"},
		{"its script", "GET", "/page/app.js", "127.0.0.1:4567", 200, "text/javascript", "import"},
		{"its style", "GET", "/page/style.css", "127.0.0.1:4567", 200, "text/css", "prefers-color-scheme"},
		{"the module", "GET", "/client/pedelec.js", "127.0.0.1:4567", 200, "text/javascript", "class Pedelec"},
		{"what it is told", "GET", "/config.json", "127.0.0.1:4567", 200, "application/json", `"endpoint":"127.0.0.1:1"`},
		{"a name that leads here from elsewhere", "GET", "/", "evil.example:4567", 421, "text/plain", "127.0.0.1"},
		{"another port", "GET", "/config.json", "127.0.0.1:9", 421, "text/plain", ""},
		{"no folder is listed", "GET", "/client/", "127.0.0.1:4567", 404, "text/plain", ""},
		{"no Go file", "GET", "/client/embed.go", "127.0.0.1:4567", 404, "text/plain", ""},
		{"nothing outside", "GET", "/page/../handler.go", "127.0.0.1:4567", 307, "text/html", ""},
		{"nothing is written", "POST", "/config.json", "127.0.0.1:4567", 405, "text/plain", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(tt.method, tt.target, tt.host, found)
			body, err := io.ReadAll(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got.StatusCode != tt.status || !strings.HasPrefix(got.Header.Get("Content-Type"), tt.contentType) || !strings.Contains(string(body), tt.says) {
				t.Errorf("got %d %s %.200q", got.StatusCode, got.Header.Get("Content-Type"), body)
			}
			if csp := got.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
				t.Errorf("the policy is %q", csp)
			}
		})
	}
}

func TestThePageLearnsThatTheDaemonDoesNotRun(t *testing.T) {
	got := ask("GET", "/config.json", "127.0.0.1:4567", func() (Config, error) { return Config{}, errors.New("no runtime file") })
	if got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d", got.StatusCode)
	}
}

// External and inline content would be refused by the policy, and the page would
// be broken in part.
func TestThePageNeedsNothingButItself(t *testing.T) {
	html, err := page.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`https?://`, `<script(>| [^>]*>[^<])`, `<style`, ` style=`, ` on[a-z]+=`} {
		if m := regexp.MustCompile(bad).Find(html); m != nil {
			t.Errorf("the page holds %q", m)
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/[^"]*)"`).FindAllSubmatch(html, -1) {
		if got := ask("GET", string(m[1]), "127.0.0.1:4567", found); got.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", m[1], got.StatusCode)
		}
	}
}

// Every file that a module imports must be served.
func TestEveryImportIsServed(t *testing.T) {
	for folder, files := range map[string]fs.FS{"/client/": js.Files, "/page/": mustSub(t)} {
		err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".js") {
				return err
			}
			text, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			for _, m := range regexp.MustCompile(`from "([^"]+)"`).FindAllSubmatch(text, -1) {
				target := string(m[1])
				if rest, ok := strings.CutPrefix(target, "./"); ok {
					target = folder + rest
				}
				if got := ask("GET", target, "127.0.0.1:4567", found); got.StatusCode != http.StatusOK {
					t.Errorf("%s%s imports %s: %d", folder, path, m[1], got.StatusCode)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func mustSub(t *testing.T) fs.FS {
	t.Helper()
	files, err := fs.Sub(page, "page")
	if err != nil {
		t.Fatal(err)
	}
	return files
}
