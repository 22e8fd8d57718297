package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// shownHeaders are the headers of an answer that a scene shows, in this order.
var shownHeaders = []string{
	"Access-Control-Allow-Origin", "Vary", "Content-Type", "Content-Length", "Content-Range", "Content-Disposition", "Accept-Ranges",
}

// actHTTP does what a line "! http METHOD URL …" says and shows the answer.
func (s *stage) actHTTP(rest string) error {
	words := strings.SplitN(rest, " ", 2)
	if len(words) < 2 {
		return fmt.Errorf("http needs a method and a URL")
	}
	url, rest, _ := strings.Cut(words[1], " ")
	header := http.Header{}
	for {
		word, after, _ := strings.Cut(rest, " ")
		key, value, ok := strings.Cut(word, "=")
		name := map[string]string{"token": "Authorization", "origin": "Origin", "range": "Range", "type": "Content-Type"}[key]
		if !ok || name == "" {
			break
		}
		if key == "token" {
			value = "Bearer " + value
		}
		header.Set(name, value)
		rest = after
	}
	req, err := http.NewRequestWithContext(s.t.Context(), words[0], url, strings.NewReader(rest))
	if err != nil {
		return err
	}
	req.Header = header
	res, err := transferClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	fmt.Fprintf(&s.out, "!< %d%s", res.StatusCode, s.headers(res))
	if len(body) == 0 {
		fmt.Fprintln(&s.out)
		return nil
	}
	shown := strconv.Quote(s.names.shown(string(body)))
	if object := jsontext.Value(body); object.Kind() == '{' && object.IsValid() {
		if shown, err = s.names.render(jsontext.Value(body), ""); err != nil {
			return err
		}
	}
	fmt.Fprintf(&s.out, " %s\n", shown)
	return nil
}

func (s *stage) headers(res *http.Response) string {
	var b strings.Builder
	for _, name := range shownHeaders {
		isError := res.StatusCode >= http.StatusBadRequest
		if isError && name == "Content-Length" {
			continue // the message is no contract, so its length is none
		}
		if value := res.Header.Get(name); value != "" {
			fmt.Fprintf(&b, " %s=%s", name, strings.ReplaceAll(s.names.text(value), " ", ""))
		}
	}
	return b.String()
}

// transferClient keeps no connection open, so that each request shows a server as
// a first one does.
var transferClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
