package claude

import (
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/leak"
	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/conformance"
)

func TestMain(m *testing.M) {
	conformance.RunFake()
	leak.VerifyTestMain(m)
}

// quick is the agent with durations that suit a test.
func quick() Agent {
	a := New()
	a.Handshake, a.Interrupt = 5*time.Second, 20*time.Millisecond
	return a
}

func fake(k conformance.Knobs) provider.Override {
	k.Flavour = "claude"
	return k.Override()
}

func TestConformance(t *testing.T) {
	for name, old := range map[string]bool{"2.1.332": false, "2.1.197": true} {
		t.Run(name, func(t *testing.T) {
			conformance.Run(t, conformance.Program{
				Driver:       func() provider.Driver { return quick().Driver() },
				Override:     func(k conformance.Knobs) provider.Override { k.OldUsage = old; return fake(k) },
				NativeTools:  true,
				UnknownID:    "00000000-0000-4000-8000-ffffffffffff",
				Unauthorized: fault.ProviderAuthRequired,
				Tokens:       conformance.TurnTokens,
			})
		})
	}
}
