//go:build unix

package tool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

// A pipe that nobody writes to tells of every attempt: who opens it to read
// waits for ever, and while he waits a writer can open it.
func TestSchemaOpensNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "schema.json")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no pipes with names here: %v", err)
	}
	t.Chdir(filepath.Dir(pipe))
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for _, schema := range []string{
			`{"$ref":"file://PATH"}`,
			`{"$ref":"PATH"}`,
			`{"$ref":"schema.json"}`,
			`{"$ref":"file:schema.json#/a"}`,
			`{"$schema":"file://PATH"}`,
			`{"$id":"file://PATH","$ref":"schema.json#/a"}`,
			`{"$id":"file://PATH/..","$ref":"schema.json"}`,
			`{"$dynamicRef":"file://PATH#a"}`,
			`{"$defs":{"a":{"$id":"file://PATH","$schema":"file://PATH"}}}`,
			`{` + draft04 + `"id":"file://PATH/..","$ref":"schema.json"}`,
		} {
			schema = strings.ReplaceAll(schema, "PATH", pipe)
			if _, err := Compile("paint", jsontext.Value(schema)); err == nil {
				done <- errors.New(schema + " was accepted")
				return
			}
		}
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			// Opening to write fails at once unless somebody reads.
			if f, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				f.Close()
				t.Fatal("a schema opened a file")
			}
		}
	}
}
