//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/settings"
)

func TestPicker(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		path    string
		code    fault.Code
	}{
		"prints a path":          {[]string{"printf", `/a folder/x\n`}, "/a folder/x", ""},
		"keeps inner blanks":     {[]string{"printf", "/ends with a blank "}, "/ends with a blank ", ""},
		"user cancelled":         {[]string{"true"}, "", ""},
		"fails":                  {[]string{"false"}, "", fault.DirectoryPickerFailed},
		"does not exist":         {[]string{"/no/such/picker"}, "", fault.DirectoryPickerFailed},
		"prints what no path is": {[]string{"printf", `a\0b`}, "", fault.DirectoryPickerFailed},
		"none configured":        {nil, "", fault.DirectoryPickerFailed},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), settingsFile)
			text, err := json.Marshal(map[string]any{"pickerCommand": c.command})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, fileMode); err != nil {
				t.Fatal(err)
			}
			path, err := picker{settings.New(file)}.Pick(t.Context())
			if path != c.path || (err != nil) != (c.code != "") || err != nil && !fault.Is(err, c.code) {
				t.Errorf("Pick() = %q, %v; want %q, %s", path, err, c.path, c.code)
			}
		})
	}
}
