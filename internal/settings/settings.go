package settings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Providers are the codes under providerSettings, in the order in which clients
// list them.
var Providers = []string{"codex", "antigravity", "opencode", "cursor", "claude", ollama}

// Levels are the effort levels of effortsArgs.
var Levels = []string{"default", "low", "high"}

const ollama = "ollama"

// What an agent may do without asking.
const (
	PermitWorkspace = "workspace" // edits inside the workspace; the default
	PermitReadOnly  = "read-only"
	PermitFull      = "full"
)

// Defaults of what the file does not say. Those of ollama are the Desktop
// app's.
const (
	DefaultJournalEvents = 10_000
	DefaultJournalBytes  = 16 << 20
	DefaultEndedThreads  = 30 * day
	DefaultIdleThreads   = 30 * day
	DefaultStoreBytes    = 4 << 30
	DefaultSilence       = 30 * time.Minute
	DefaultSessionStart  = 60 * time.Second
	DefaultOllamaURL     = "http://127.0.0.1:11434"
	DefaultOllamaTimeout = 120 * time.Second

	day = 24 * time.Hour
)

// Settings are the user's choices at one moment, defaults filled in. Values are
// shared: callers must not change what they point to.
type Settings struct {
	DefaultProvider string // code; "" = none
	RequireToken    bool   // every request must carry the daemon's token
	AllowedOrigins  []string
	PickerCommand   []string // program and arguments; nil = none
	Retention       Retention
	Watchdogs       Watchdogs
	Ollama          Ollama

	providers map[string]provider
}

// Retention says how much is kept.
type Retention struct {
	JournalEvents int           // a thread
	JournalBytes  int64         // a thread
	EndedThreads  time.Duration // after which ended threads are purged; 0 = never
	IdleThreads   time.Duration // after which forgotten threads are ended; 0 = never
	StoreBytes    int64
}

// Watchdogs says how long a silent provider is waited for; 0 = for ever.
type Watchdogs struct {
	Silence      time.Duration // no frame in a turn
	SessionStart time.Duration
}

// Ollama is how the Ollama server is reached.
type Ollama struct {
	BaseURL      string // without a slash at its end
	Timeout      time.Duration
	APIKey       string
	TavilyAPIKey string
}

// provider is one entry of providerSettings.
type provider struct {
	broken     *Problem // the whole entry is unusable
	efforts    map[string]effortList
	command    []string
	commandBad *Problem
	env        map[string]string
	permission string
}

type effortList struct {
	args   []string
	broken *Problem
}

// A Problem is one entry of the file that cannot be used.
type Problem struct {
	Path string // such as providerSettings.codex.effortsArgs.low[0]
	Msg  string // a sentence's worth of what is wrong with it

	rule bool // the shape is right, the value breaks a rule
}

// String returns path and message.
func (p Problem) String() string { return p.Path + ": " + p.Msg }

func defaults() Settings {
	return Settings{
		Retention: Retention{
			JournalEvents: DefaultJournalEvents,
			JournalBytes:  DefaultJournalBytes,
			EndedThreads:  DefaultEndedThreads,
			IdleThreads:   DefaultIdleThreads,
			StoreBytes:    DefaultStoreBytes,
		},
		Watchdogs: Watchdogs{Silence: DefaultSilence, SessionStart: DefaultSessionStart},
		Ollama:    Ollama{BaseURL: DefaultOllamaURL, Timeout: DefaultOllamaTimeout},
		providers: map[string]provider{},
	}
}

// EffortArgs returns a copy of the key-value pairs of a provider's effort
// level, checked; an empty list leaves the choice to the provider. Errors:
// INVALID_INPUT with details {provider, effortLevel}; MODEL_REQUIRED with
// details {provider} where the provider has no default model.
func (s Settings) EffortArgs(code, level string) ([]string, error) {
	refuse := func(msg string) error {
		return fault.New(fault.InvalidInput, msg).With("provider", code).With("effortLevel", level)
	}
	if !slices.Contains(Providers, code) {
		return nil, refuse(fmt.Sprintf("%q is no provider.", code))
	}
	if !slices.Contains(Levels, level) {
		return nil, refuse(fmt.Sprintf("%q is no effort level.", level))
	}
	p := s.providers[code]
	list := p.efforts[level]
	if broken := cmp.Or(p.broken, list.broken); broken != nil {
		return nil, refuse("The settings entry " + broken.Path + " cannot be used: " + broken.Msg + ".")
	}
	if code == ollama && modelOf(list.args) == "" {
		return nil, modelRequired()
	}
	return slices.Clone(list.args), nil
}

func modelRequired() error {
	return fault.New(fault.ModelRequired, "Ollama needs a model: set providerSettings.ollama.effortsArgs to [\"--model\", \"<name>\"].").
		With("provider", ollama)
}

// Command returns the program that replaces the provider's discovered one, with
// its leading arguments, or nil. An entry that cannot be used is an error,
// since starting another program than the one asked for would be a surprise.
func (s Settings) Command(code string) ([]string, error) {
	p := s.providers[code]
	if broken := cmp.Or(p.broken, p.commandBad); broken != nil {
		return nil, fault.New(fault.InvalidInput, "The settings entry "+broken.Path+" cannot be used: "+broken.Msg+".").With("provider", code)
	}
	return slices.Clone(p.command), nil
}

// Env returns the variables that are added to the provider's environment.
func (s Settings) Env(code string) map[string]string { return maps.Clone(s.providers[code].env) }

// Permission returns what the provider's agent may do without asking: workspace
// unless the file says otherwise, read-only where it cannot be understood.
func (s Settings) Permission(code string) string {
	p := s.providers[code]
	if p.broken != nil {
		return PermitReadOnly
	}
	if p.permission == "" {
		return PermitWorkspace
	}
	return p.permission
}

// Secrets returns every value that must not appear in a log or an error.
func (s Settings) Secrets() []string {
	secrets := []string{s.Ollama.APIKey, s.Ollama.TavilyAPIKey}
	for _, p := range s.providers {
		for name, value := range p.env {
			if secretName.MatchString(name) {
				secrets = append(secrets, value)
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(v string) bool { return v == "" })
	slices.Sort(secrets)
	return slices.Compact(secrets)
}
