package acp

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
	"github.com/pedelec/pedelec-core/internal/thread"
)

// Defaults of a flavour's durations.
const (
	DefaultHandshake    = 30 * time.Second // opencode was seen to take 2.6 s on an idle machine
	DefaultAuthenticate = 10 * time.Second // a login that needs a person never ends, so it is not waited for
	DefaultOpen         = 60 * time.Second // a load replays the whole history
	DefaultControl      = 10 * time.Second
	DefaultRetryGap     = time.Second // agents retry a cut model connection after 2 s and more
)

// Flavour is what differs between ACP agents. Durations and limits may be shortened
// before Driver.
type Flavour struct {
	Provider     thread.Provider
	LoginCommand string

	Handshake    time.Duration // initialize
	Authenticate time.Duration // of agents that have it
	Open         time.Duration // session/new, load, resume
	Control      time.Duration // any other request but a prompt
	RetryGap     time.Duration // silence in a message after which it may begin anew
	Silence      time.Duration // see jsonrpc.Config.Silence
	Announce     time.Duration // for a call of a frontend tool to show in its session
	MessageLimit int           // bytes of one message; see provider.MaxMessageBytes

	programs    []string
	inherit     []string
	env         func(thread.Permission, func(string) string) (map[string]string, error)
	secrets     []string
	meta        map[string]bool // of the client's capabilities
	authMethod  string          // "" = logs in by itself
	authEnv     []string        // variables that make a login unnecessary
	choosesMode bool
	keepsFile   bool // host instructions are kept in a file too
	countsUsage bool // a prompt's answer tells its tokens
	sharesTools bool // the tools of one session are offered to all in its folder
	isCallOf    func(a announcement, modelName string) bool
	extensions  map[string]outcome // requests of the agent's own, and what they are answered with
}

// OpenCode returns the flavour of "opencode acp".
func OpenCode() Flavour {
	f := common(thread.OpenCode)
	f.LoginCommand = "opencode auth login"
	f.programs = []string{"opencode"}
	f.inherit = []string{ // it talks to model vendors with their usual variables
		"OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "OPENROUTER_*", "GEMINI_*", "GOOGLE_*", "GROQ_*", "MISTRAL_*",
		"DEEPSEEK_*", "XAI_*", "AWS_*", "AZURE_*",
	}
	f.env = openCodeEnv
	f.secrets = []string{openCodePassword}
	f.keepsFile = true
	f.countsUsage = true
	f.sharesTools = true
	f.isCallOf = exactTitle
	return f
}

// Cursor returns the flavour of "agent acp".
func Cursor() Flavour {
	f := common(thread.Cursor)
	f.LoginCommand = "agent login"
	f.programs = []string{"agent", "cursor-agent"}
	f.inherit = []string{"CURSOR_*"}
	f.meta = map[string]bool{"parameterizedModelPicker": true} // model, effort and speed as options of their own
	f.authMethod = "cursor_login"
	f.authEnv = []string{"CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"}
	f.choosesMode = true
	f.isCallOf = mentions
	f.extensions = map[string]outcome{ // both block the turn until they are answered
		"cursor/ask_question": {Outcome: "skipped", Reason: "Nobody can be asked in this session; decide yourself."},
		"cursor/create_plan":  {Outcome: "rejected", Reason: "Plans are not reviewed in this session; go on without one."},
	}
	return f
}

func common(p thread.Provider) Flavour {
	return Flavour{
		Provider:     p,
		Handshake:    DefaultHandshake,
		Authenticate: DefaultAuthenticate,
		Open:         DefaultOpen,
		Control:      DefaultControl,
		RetryGap:     DefaultRetryGap,
		Silence:      jsonrpc.DefaultSilence,
		Announce:     DefaultAnnounce,
		MessageLimit: provider.MaxMessageBytes,
	}
}

// Driver returns how the manager runs this agent.
func (f Flavour) Driver() provider.Driver {
	return provider.Driver{
		Provider:         f.Provider,
		Programs:         f.programs,
		Args:             []string{"acp"},
		HelpArgs:         []string{"acp", "--help"},
		HelpWord:         "acp",
		Inherit:          f.inherit,
		Env:              f.env,
		Secrets:          f.secrets,
		HandshakeTimeout: f.Handshake,
		New:              func(l provider.Link) provider.Runtime { return newRuntime(f, l) },
	}
}

// openCodePassword protects the HTTP server that opencode opens beside ACP, and
// which would answer any page in the user's browser without it.
const openCodePassword = "OPENCODE_SERVER_PASSWORD"

// openCodeEnv keeps opencode from changing itself, closes its HTTP server, and
// makes the strictest of its own rules hold before it would ask us.
func openCodeEnv(p thread.Permission, lookup func(string) string) (map[string]string, error) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	env := map[string]string{
		"OPENCODE_DISABLE_AUTOUPDATE":   "1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
		openCodePassword:                hex.EncodeToString(secret[:]),
	}
	rules := map[string]jsontext.Value{}
	if own := lookup("OPENCODE_PERMISSION"); own != "" {
		if err := json.Unmarshal([]byte(own), &rules); err != nil {
			return nil, fmt.Errorf("the variable OPENCODE_PERMISSION is not a JSON object; correct or unset it")
		}
	}
	var denied []string
	switch p {
	case thread.PermitFull:
	case thread.PermitReadOnly:
		denied = []string{"external_directory", "skill", "edit", "bash"}
	default:
		denied = []string{"external_directory", "skill"}
	}
	for _, name := range denied {
		rules[name] = jsontext.Value(`"deny"`)
	}
	if len(rules) == 0 {
		return env, nil
	}
	merged, err := json.Marshal(rules, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("OPENCODE_PERMISSION: %w", err)
	}
	env["OPENCODE_PERMISSION"] = string(merged)
	return env, nil
}
