package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestHealthAndMetrics asks the HTTP listener as a supervisor does, and as a web
// page would.
func TestHealthAndMetrics(t *testing.T) {
	d := start(t, newHome(t))
	c := d.dial()
	id := newThread(t, c)
	tests := map[string]struct {
		path   string
		header [2]string
		host   string
		want   int
	}{
		"healthy":                    {path: "/healthz", want: http.StatusOK},
		"ready":                      {path: "/readyz", want: http.StatusOK},
		"metrics":                    {path: "/metrics", want: http.StatusOK},
		"localhost is a name of it":  {path: "/healthz", host: "localhost", want: http.StatusOK},
		"another name is not":        {path: "/healthz", host: "rebound.example", want: http.StatusMisdirectedRequest},
		"not for a page":             {path: "/metrics", header: [2]string{"Origin", "https://app.example"}, want: http.StatusForbidden},
		"not for a page's null":      {path: "/healthz", header: [2]string{"Origin", "null"}, want: http.StatusForbidden},
		"not cross-site":             {path: "/healthz", header: [2]string{"Sec-Fetch-Site", "cross-site"}, want: http.StatusForbidden},
		"typed into the address bar": {path: "/healthz", header: [2]string{"Sec-Fetch-Site", "none"}, want: http.StatusOK},
		"nothing else":               {path: "/", want: http.StatusNotFound},
	}
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.info.HTTPEndpoint+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.header[0] != "" {
				req.Header.Set(tt.header[0], tt.header[1])
			}
			if tt.host != "" {
				req.Host = tt.host + d.info.HTTPEndpoint[strings.LastIndexByte(d.info.HTTPEndpoint, ':'):]
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != tt.want {
				t.Errorf("status %d, want %d: %s", res.StatusCode, tt.want, clip(body))
			}
			if allowed := res.Header.Get("Access-Control-Allow-Origin"); allowed != "" {
				t.Errorf("a page may read it: %s", allowed)
			}
			for _, private := range []string{id, d.home, d.info.Token} {
				if strings.Contains(string(body), private) {
					t.Errorf("it tells %q", private)
				}
			}
		})
	}
}
