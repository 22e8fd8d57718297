package codex

import (
	"time"

	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Defaults of an agent's durations.
const (
	DefaultHandshake = 10 * time.Second // it was seen to take 0.07 to 0.3 s
	DefaultOpen      = 15 * time.Second // thread/start and thread/resume, 30 to 60 ms each
	DefaultControl   = 10 * time.Second // any other request
	DefaultAccept    = 2 * time.Second  // how long StartTurn waits for the answer to a turn that is written
	DefaultInterrupt = 200 * time.Millisecond
	DefaultHandOver  = 200 * time.Millisecond // and longer each time, up to maxHandOver
	DefaultPatience  = 20 * time.Second       // a process that shall go lets a conversation go within milliseconds
	maxHandOver      = time.Second
)

const name = "Codex"

// loginCommand is what a person runs when the agent is not logged in.
const loginCommand = "codex login"

// Agent is how codex is run. Its durations may be changed before Driver.
type Agent struct {
	Handshake time.Duration
	Open      time.Duration
	Control   time.Duration
	Accept    time.Duration
	Interrupt time.Duration // before an interrupt that came too early is sent again
	HandOver  time.Duration // before a conversation that another process holds is asked for again
	Patience  time.Duration // with that process, which may be none of ours
	Silence   time.Duration // see jsonrpc.Config.Silence
}

// New returns the agent with its defaults.
func New() Agent {
	return Agent{
		Handshake: DefaultHandshake,
		Open:      DefaultOpen,
		Control:   DefaultControl,
		Accept:    DefaultAccept,
		Interrupt: DefaultInterrupt,
		HandOver:  DefaultHandOver,
		Patience:  DefaultPatience,
		Silence:   jsonrpc.DefaultSilence,
	}
}

// Driver returns how the manager runs it.
func (a Agent) Driver() provider.Driver {
	return provider.Driver{
		Provider: thread.Codex,
		Programs: []string{"codex"},
		Native:   native,
		Args:     []string{"app-server"},
		HelpArgs: []string{"app-server", "--help"},
		HelpWord: "app-server",
		Inherit: []string{ // its own, and the usual ones of the vendors that its settings may name
			"CODEX_*", "OPENAI_*", "AZURE_*", "OPENROUTER_*", "MISTRAL_*", "GROQ_*", "DEEPSEEK_*", "XAI_*", "AWS_*",
		},
		HandshakeTimeout: a.Handshake,
		New:              func(l provider.Link) provider.Runtime { return newRuntime(a, l) },
	}
}
