package codex

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
	a.Open, a.HandOver, a.Interrupt = 2*time.Second, 20*time.Millisecond, 10*time.Millisecond
	a.Patience = 5 * time.Second
	return a
}

func fake(k conformance.Knobs) provider.Override {
	k.Flavour = "codex"
	return k.Override()
}

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Program{
		Driver:       func() provider.Driver { return quick().Driver() },
		Override:     fake,
		NativeTools:  true,
		UnknownID:    "01a22d68-0000-7000-8000-ffffffffffff",
		Unauthorized: fault.ProviderAuthRequired,
		Tokens:       conformance.TurnTokens,
	})
}
