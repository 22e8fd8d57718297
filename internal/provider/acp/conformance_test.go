package acp

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/conformance"
)

// script translates a line of the suite's into one of this package's fake.
func script(line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "fail":
		return `fail {"code":-32603,"message":"the model server answered with status ` + rest + `"}`
	case "cut":
		return `fail {"code":-32603,"message":"the stream was cut"}`
	case "late":
		return "latecancel"
	}
	return line
}

func TestConformance(t *testing.T) {
	for name, flavour := range map[string]func() Flavour{"opencode": OpenCode, "cursor": Cursor} {
		t.Run(name, func(t *testing.T) {
			p := conformance.Program{
				Driver: func() provider.Driver {
					f := flavour()
					f.Open = 2 * time.Second
					return f.Driver()
				},
				Override: func(k conformance.Knobs) provider.Override {
					text, err := json.Marshal(knobs{Dir: k.Dir, ExitAtStart: k.ExitStatus, HangResume: k.HangResume, Noise: k.Noise})
					if err != nil {
						t.Fatal(err)
					}
					self, err := os.Executable()
					if err != nil {
						t.Fatal(err)
					}
					return provider.Override{Command: []string{self}, Env: map[string]string{knobsEnv: string(text), "GORACE": "atexit_sleep_ms=0"}}
				},
				Script:       script,
				UnknownID:    "ses_never",
				Unauthorized: fault.ProviderRequestFailed, // these agents do not tell a refused key from another refusal
			}
			if name == "opencode" {
				p.Tokens = 12
			}
			conformance.Run(t, p)
		})
	}
}
