package webdemo

import (
	"embed"
	"io/fs"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/client/js"
	"github.com/pedelec/pedelec-core/internal/loopback"
)

//go:embed page
var page embed.FS

// policy lets the page load its own files and reach the daemon, whose port is
// another one after each start. Nothing stands inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self' ws://127.0.0.1:* http://127.0.0.1:*; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Config is what the page is told.
type Config struct {
	Endpoint  string `json:"endpoint"`           // the daemon's HTTP listener, host and port
	Approve   string `json:"approve"`            // the command that approves the page
	Workspace string `json:"workspace,omitzero"` // folder of the sessions; "": the daemon makes one
	Scripted  bool   `json:"scripted"`           // the agent is a script: the page suggests words that it knows
}

// Options say how the page is served.
type Options struct {
	Port int                    // of the listener, for the check of the Host header
	Find func() (Config, error) // finds the daemon; its error makes the answer 503
}

// Handler serves the page at /, the module below /client/ and /config.json.
func Handler(o Options) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the name is a constant of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.FileServerFS(files))
	mux.Handle("GET /page/", http.StripPrefix("/page/", onlyFiles(files)))
	mux.Handle("GET /client/", http.StripPrefix("/client/", onlyFiles(js.Files)))
	mux.HandleFunc("GET /config.json", func(w http.ResponseWriter, _ *http.Request) { config(w, o.Find) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !loopback.CheckHost(r.Host, o.Port) {
			http.Error(w, "This page is served on 127.0.0.1 only.", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// onlyFiles serves files and lists no folder.
func onlyFiles(files fs.FS) http.Handler {
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, err := fs.Stat(files, r.URL.Path); err != nil || info.IsDir() {
			http.NotFound(w, r)
			return
		}
		server.ServeHTTP(w, r)
	})
}

func config(w http.ResponseWriter, find func() (Config, error)) {
	c, err := find()
	if err != nil {
		http.Error(w, "The daemon does not run: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, c) // the page may be gone
}
