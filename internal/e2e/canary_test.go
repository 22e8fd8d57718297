package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretsStayOutOfLogsAndErrors plants secrets where a daemon could pick them
// up, makes things go well and wrong at the most talkative log level, and looks for
// them in all that it wrote and in what it told of errors.
func TestSecretsStayOutOfLogsAndErrors(t *testing.T) {
	const (
		apiKey  = "sk-canary0123456789abcdef"  // in the environment of the agent, by the settings
		spoken  = "canary-words-of-the-user"   // what a user says is nobody's business
		bearer  = "canaryBearer0123456789abcd" // in what a provider prints and answers
		replied = "canary-words-of-the-agent"
	)
	home := newHome(t)
	writeSettings(t, home, object{"providerSettings": object{"opencode": object{
		"command": []string{binary, "agent", "--scripted"},
		"env":     object{"OPENAI_API_KEY": apiKey, "PEDELEC_SCRIPTED_STATE": filepath.Join(filepath.Dir(home), "sessions")},
	}}})
	d := start(t, home)
	c := d.operator()
	id := newThread(t, c)
	if err := c.call("subscribe_thread", object{"threadId": id}, nil); err != nil {
		t.Fatal(err)
	}
	var failures []event
	for i, text := range []string{
		"echo " + spoken,
		"echo " + replied,
		"banner ; bigline 100000 ; echo " + spoken,
		"fail the key " + apiKey + " was refused, Authorization: Bearer " + bearer,
	} {
		op := "op-" + string(rune('a'+i))
		if err := c.call("send_text", object{"threadId": id, "operationId": op, "message": text}, nil); err != nil {
			t.Fatal(err)
		}
		events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Err != nil {
				failures = append(failures, e)
			}
		}
	}
	// Requests that are refused, with secrets in them.
	for _, line := range []string{
		`{"requestId":"1","type":"ping","authToken":"` + bearer + `"}`,
		`{"requestId":"2","type":"` + bearer + `"}`,
		`{"requestId":"3","type":"send_text","payload":{"threadId":"` + id + `","message":7,"x":"` + spoken + `"}}`,
		spoken,
	} {
		if err := c.send([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.next(patience); err != nil {
			t.Fatal(err)
		}
	}
	token := d.info.Token
	if code, err := d.stop(); err != nil || code != 0 {
		t.Fatalf("the daemon left with %d: %v", code, err)
	}

	if len(failures) == 0 {
		t.Error("no error was told, so nothing is shown")
	}
	for _, e := range failures {
		for _, secret := range []string{apiKey, bearer, token} {
			if bytes.Contains(e.raw, []byte(secret)) {
				t.Errorf("an error tells a secret: %s", e.raw)
			}
		}
	}
	written := map[string][]byte{}
	readInto(t, written, d.log)
	err := filepath.WalkDir(filepath.Join(home, "logs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			readInto(t, written, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(written) < 2 {
		t.Errorf("only %d logs were found", len(written))
	}
	for path, text := range written {
		for _, secret := range []string{apiKey, bearer, token, spoken, replied} {
			if at := bytes.Index(text, []byte(secret)); at >= 0 {
				line := text[bytes.LastIndexByte(text[:at], '\n')+1:]
				line, _, _ = bytes.Cut(line, []byte("\n"))
				t.Errorf("%s holds %q: %s", strings.TrimPrefix(path, home), secret, line)
			}
		}
	}
}

func readInto(t *testing.T, all map[string][]byte, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all[path] = b
}
