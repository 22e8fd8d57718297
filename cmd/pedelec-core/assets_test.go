package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestRefusedTransfersTellTheirCode(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       fault.Code
		says       string
	}{
		{"a code", `{"error":{"code":"ASSET_UPLOAD_TICKET_EXPIRED","message":"too late","details":{"a":1}}}`, fault.AssetUploadTicketExpired, "too late"},
		{"a proxy's words", `<html>Bad gateway</html>`, "", "418 I'm a teapot <html>Bad gateway</html>"},
		{"nothing", ``, "", "418 I'm a teapot"},
		{"JSON of another kind", `{"ok":false}`, "", "refused"},
		{"more than an error has", strings.Repeat("x", maxErrorBody+1), "", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("authorization %q", r.Header.Get("Authorization"))
				}
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, c.body) // the client may have left
			}))
			defer server.Close()
			_, err := transfer(t.Context(), http.MethodGet, server.URL, "secret", nil, 0)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q in it", err, c.says)
			}
			var coded *fault.Error
			if errors.As(err, &coded) != (c.code != "") || coded != nil && coded.Code != c.code {
				t.Errorf("error %v, want the code %q", err, c.code)
			}
		})
	}
}

func TestATransferThatIsInterruptedSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	if _, err := transfer(ctx, http.MethodGet, server.URL, "secret", nil, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestReplaceFileLeavesWhatIsThereUntilTheNewOneIsWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		}
	}
	broken := errors.New("broken off")
	if err := replaceFile(file, write("half", broken)); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	wantEntries(t, dir)
	if err := replaceFile(file, write("whole", nil)); err != nil {
		t.Error(err)
	}
	if err := replaceFile(file, write("half", broken)); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	wantEntries(t, dir, "a.txt")
	if got := read(t, file); got != "whole" {
		t.Errorf("the file holds %q", got)
	}
	if err := replaceFile(filepath.Join(dir, "nowhere", "a.txt"), write("", nil)); err == nil {
		t.Error("a file was stored in a folder that is not there")
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(folder, write("x", nil)); err == nil {
		t.Error("a folder was replaced by a file")
	}
	wantEntries(t, dir, "a.txt", "folder")
}

func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func TestOnlyRegularFilesAreUploaded(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "nothing")} {
		if _, _, err := openRegular(path); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
}
