package inspect

import (
	"errors"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestRoutes(t *testing.T) {
	r := newRig(t)
	in := []string{"Cookie", r.session()}
	with := func(more ...string) []string { return append(in[:2:2], more...) }
	for _, tt := range []struct {
		name, method, path string
		header             []string
		status             int
		says               string
	}{
		{"the page", "GET", "/inspect/", nil, 200, "<title>"},
		{"the page by a typed address", "GET", "/inspect/", []string{"Sec-Fetch-Site", "none"}, 200, "<title>"},
		{"the page without its slash", "GET", "/inspect", nil, 307, "/inspect/"},
		{"its script", "GET", "/inspect/page/app.js", nil, 200, "EventSource"},
		{"its style", "GET", "/inspect/page/style.css", nil, 200, "prefers-color-scheme"},
		{"its icon", "GET", "/inspect/page/icon.svg", nil, 200, "<svg"},
		{"no folder is listed", "GET", "/inspect/page/", nil, 404, ""},
		{"nothing else", "GET", "/inspect/page/handler.go", nil, 404, ""},
		{"threads", "GET", "/inspect/threads", in, 200, `{"threads":[{"threadId":"t1"},{"threadId":"t2"}],"next":"t2"}`},
		{"threads of a status that is none", "GET", "/inspect/threads?status=lazy", in, 400, "INVALID_INPUT"},
		{"more threads than there may be", "GET", "/inspect/threads?limit=1001", in, 400, "INVALID_INPUT"},
		{"no threads", "GET", "/inspect/threads?limit=0", in, 400, "INVALID_INPUT"},
		{"a thread", "GET", "/inspect/threads/t1", in, 200, `{"threadId":"t1","latestSeq":0}`},
		{"a thread that is none", "GET", "/inspect/threads/t9", in, 404, "THREAD_NOT_FOUND"},
		{"events of a thread that is none", "GET", "/inspect/threads/t9/events", in, 404, "THREAD_NOT_FOUND"},
		{"events after what is no number", "GET", "/inspect/threads/t1/events?after=x", in, 400, "INVALID_INPUT"},
		{"runtimes", "GET", "/inspect/runtimes", in, 200, `{"runtimes":[{"runtimeId":"r1"},{"runtimeId":"r2"}]}`},
		{"threads without a session", "GET", "/inspect/threads", nil, 401, "pedelec-core inspect"},
		{"a thread without a session", "GET", "/inspect/threads/t1", nil, 401, ""},
		{"events without a session", "GET", "/inspect/threads/t1/events", nil, 401, ""},
		{"runtimes without a session", "GET", "/inspect/runtimes", nil, 401, ""},
		{"another cookie", "GET", "/inspect/runtimes", []string{"Cookie", "pedelec_inspect=" + strings.Repeat("0", 64)}, 401, ""},
		{"a wrong cookie", "GET", "/inspect/runtimes", []string{"Cookie", cookieOf(in[1]) + "=" + strings.Repeat("0", 64)}, 401, ""},
		{"an empty cookie", "GET", "/inspect/runtimes", []string{"Cookie", cookieOf(in[1]) + "="}, 401, ""},
		{"from the page itself", "GET", "/inspect/runtimes", with("Sec-Fetch-Site", "same-origin", "Origin", r.server.URL), 200, ""},
		{"from another site", "GET", "/inspect/runtimes", with("Sec-Fetch-Site", "cross-site"), 403, ""},
		{"from another port", "GET", "/inspect/runtimes", with("Sec-Fetch-Site", "same-site"), 403, ""},
		{"from another origin", "GET", "/inspect/runtimes", with("Origin", "https://a.example"), 403, ""},
		{"from an origin that hides", "GET", "/inspect/threads/t1/events", with("Origin", "null"), 403, ""},
		{"the page from another site", "GET", "/inspect/", []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		{"another host", "GET", "/inspect/runtimes", with("Host", "rebound.example"), 421, ""},
		{"the page of another host", "GET", "/inspect/", []string{"Host", "rebound.example"}, 421, ""},
		{"the exchange at another host", "POST", "/inspect/session", []string{"Host", "rebound.example"}, 421, ""},
		{"the exchange from another origin", "POST", "/inspect/session", []string{"Origin", "https://a.example"}, 403, ""},
		{"the exchange from an origin that hides", "POST", "/inspect/session", []string{"Origin", "null"}, 403, ""},
		{"the exchange without an origin", "POST", "/inspect/session", []string{"Origin", ""}, 403, ""},
		{"the exchange without a code", "POST", "/inspect/session", nil, 400, "INVALID_INPUT"},
		{"a session is not read", "GET", "/inspect/session", in, 405, ""},
		{"threads are not written", "POST", "/inspect/threads", in, 405, ""},
		{"a thread is not deleted", "DELETE", "/inspect/threads/t1", in, 405, ""},
		{"runtimes are not changed", "PUT", "/inspect/runtimes", in, 405, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := r.ask(tt.method, tt.path, "", tt.header...)
			body := new(strings.Builder)
			if err := got.Write(body); err != nil {
				t.Fatal(err)
			}
			if got.StatusCode != tt.status || !strings.Contains(body.String(), tt.says) {
				t.Errorf("got %.400q, want %d with %q", body, tt.status, tt.says)
			}
			csp := got.Header.Get("Content-Security-Policy")
			if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
				t.Errorf("the policy is %q", csp)
			}
			for name, want := range map[string]string{
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
				"Access-Control-Allow-Origin": "", "Set-Cookie": "",
			} {
				if have := got.Header.Get(name); have != want {
					t.Errorf("%s is %q, want %q", name, have, want)
				}
			}
		})
	}
	if caller := r.threads.caller; !caller.Operator() {
		t.Errorf("asked as %+v", caller)
	}
}

func cookieOf(header string) string {
	name, _, _ := strings.Cut(header, "=")
	return name
}

func TestAListIsFilteredAndPaged(t *testing.T) {
	r := newRig(t)
	if status, text := r.read("GET", "/inspect/threads?status=idle&after=t0&limit=7", "", "Cookie", r.session()); status != 200 {
		t.Fatal(status, text)
	}
	if want := (thread.ListQuery{Status: thread.Idle, After: "t0", Limit: 7}); r.threads.query != want {
		t.Errorf("asked for %+v, want %+v", r.threads.query, want)
	}
}

func TestTheCookie(t *testing.T) {
	r := newRig(t)
	got := r.enter(r.code())
	cookies := got.Cookies()
	if got.StatusCode != http.StatusNoContent || len(cookies) != 1 {
		t.Fatalf("%d with %v", got.StatusCode, cookies)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/inspect" || c.Domain != "" || c.MaxAge != 12*3600 || len(c.Value) != 64 {
		t.Errorf("the cookie is %+v", c)
	}
}

func TestACodeIsGoodOnce(t *testing.T) {
	r := newRig(t)
	code := r.code()
	if got := r.enter(code).StatusCode; got != 204 {
		t.Fatal(got)
	}
	if got := r.enter(code); got.StatusCode != 401 || len(got.Cookies()) > 0 {
		t.Errorf("the second time: %d", got.StatusCode)
	}
}

func TestACodeIsGoodForAMinute(t *testing.T) {
	for passed, want := range map[time.Duration]int{time.Minute - 1: 204, time.Minute: 401} {
		r := newRig(t)
		code := r.code()
		r.pass(passed)
		if got := r.enter(code).StatusCode; got != want {
			t.Errorf("after %v: %d, want %d", passed, got, want)
		}
	}
}

func TestWhatIsRefusedTakesNoCodeAway(t *testing.T) {
	r := newRig(t)
	code := r.code()
	for _, wrong := range []string{"", strings.Repeat("0", 64), code[:63], code + "0", strings.ToUpper(code)} {
		if wrong == code {
			continue // no letter in it
		}
		if got := r.enter(wrong).StatusCode; got != 401 {
			t.Errorf("%q: %d", wrong, got)
		}
	}
	if got := r.enter(code, "Origin", "https://a.example").StatusCode; got != 403 {
		t.Error(got)
	}
	if got := r.ask("POST", "/inspect/session", strings.Repeat(" ", 2000)+`{"code":"`+code+`"}`).StatusCode; got != 400 {
		t.Error(got)
	}
	if got := r.enter(code).StatusCode; got != 204 {
		t.Errorf("the right one afterwards: %d", got)
	}
}

func TestASessionEndsAfterTwelveHours(t *testing.T) {
	r := newRig(t)
	cookie := r.session()
	r.pass(12*time.Hour - 1)
	if got, _ := r.read("GET", "/inspect/runtimes", "", "Cookie", cookie); got != 200 {
		t.Errorf("before: %d", got)
	}
	r.pass(1)
	if got, _ := r.read("GET", "/inspect/runtimes", "", "Cookie", cookie); got != 401 {
		t.Errorf("after: %d", got)
	}
}

func TestTheOldestSessionGivesWay(t *testing.T) {
	r := newRig(t)
	first, second := r.session(), r.session()
	for range MaxSessions - 1 {
		r.session()
	}
	if got, _ := r.read("GET", "/inspect/runtimes", "", "Cookie", first); got != 401 {
		t.Errorf("the first: %d", got)
	}
	if got, _ := r.read("GET", "/inspect/runtimes", "", "Cookie", second); got != 200 {
		t.Errorf("the second: %d", got)
	}
}

func TestOtherUsersStayOutEvenWithASession(t *testing.T) {
	r := newRig(t)
	cookie, code := r.session(), r.code()
	r.peers.setForeign()
	if got, _ := r.read("GET", "/inspect/runtimes", "", "Cookie", cookie); got != 403 {
		t.Errorf("with a cookie: %d", got)
	}
	if got := r.enter(code).StatusCode; got != 403 {
		t.Errorf("with a code: %d", got)
	}
}

func TestOurOwnFaultsAreLoggedAndSecretsAreNot(t *testing.T) {
	r := newRig(t)
	code := r.code()
	cookie := r.session()
	r.enter(code)
	r.threads.fail(errors.New("broken"))
	if got, text := r.read("GET", "/inspect/threads", "", "Cookie", cookie); got != 500 || strings.Contains(text, "broken") {
		t.Errorf("%d %s", got, text)
	}
	log := r.log.String()
	_, secret, _ := strings.Cut(cookie, "=")
	if !strings.Contains(log, "broken") || strings.Contains(log, code) || strings.Contains(log, secret) {
		t.Errorf("the log is %s", log)
	}
}

func TestThePageFiltersByEveryStatus(t *testing.T) {
	html, err := page.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range thread.Statuses {
		if !strings.Contains(string(html), "<option>"+status.String()+"</option>") {
			t.Errorf("it does not offer %s", status)
		}
	}
	if n := strings.Count(string(html), "<option>"); n != len(thread.Statuses) {
		t.Errorf("it offers %d of %d", n, len(thread.Statuses))
	}
}

// External and inline content would be refused by the policy, and the page would
// be broken in part.
func TestThePageNeedsNothingButItself(t *testing.T) {
	err := fs.WalkDir(page, "page", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := page.ReadFile(path)
		if err != nil {
			return err
		}
		text = []byte(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")) // a name, no address
		for _, bad := range []string{`https?://`, `<script(>| [^>]*>[^<])`, `<style`, ` style=`, ` on[a-z]+="`, `innerHTML`} {
			if m := regexp.MustCompile(bad).Find(text); m != nil {
				t.Errorf("%s holds %q", path, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
