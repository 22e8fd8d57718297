package acp

import (
	"context"
	"slices"
	"strings"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// The categories of a session's options.
const (
	modeCategory   = "mode"
	modelCategory  = "model"
	effortCategory = "thought_level"
	fastOption     = "fast" // by id: its category holds other things too
)

// efforts are the pairs of an effort level that an ACP agent understands.
type efforts struct {
	model, effort, fast string
}

func parseEfforts(args []string) efforts {
	var e efforts
	for pair := range slices.Chunk(args, 2) {
		if len(pair) < 2 {
			break
		}
		value := strings.TrimSpace(pair[1])
		switch pair[0] {
		case "--model":
			e.model = value
		case "--effort":
			e.effort = value
		case "--fast":
			e.fast = value
		}
	}
	return e
}

// configure gives a session its mode, model and effort, in the order in which one
// changes what the next offers.
func (r *Runtime) configure(ctx context.Context, id string, state sessionState, args []string) error {
	if r.flavour.choosesMode {
		if err := r.chooseMode(ctx, id, &state); err != nil {
			return err
		}
	}
	e := parseEfforts(args)
	for _, setting := range []struct{ flag, category, value string }{
		{"--model", modelCategory, e.model},
		{"--effort", effortCategory, e.effort},
		{"--fast", fastOption, e.fast},
	} {
		if setting.value == "" {
			continue
		}
		if err := r.choose(ctx, id, &state, setting.flag, setting.category, setting.value); err != nil {
			return err
		}
	}
	return nil
}

// choose sets an option to one of the values that the agent offers. After a resume
// that told nothing, the session keeps what it had.
func (r *Runtime) choose(ctx context.Context, id string, state *sessionState, flag, category, value string) error {
	option := find(state.ConfigOptions, category)
	if option == nil && state.ConfigOptions == nil {
		return nil
	}
	if option == nil || !option.offers(value) {
		return fault.Newf(fault.ProviderUnsupported, "%s does not offer %s %q; correct its effort settings.", r.flavour.Provider.Name(), flag, value).
			With("provider", r.flavour.Provider.String()).With("option", flag).With("value", value)
	}
	if option.is(value) {
		return nil
	}
	return r.set(ctx, id, state, option.ID, value)
}

func (r *Runtime) set(ctx context.Context, id string, state *sessionState, option, value string) error {
	var result setOptionResult
	if err := r.call(ctx, r.flavour.Control, "session/set_config_option", setOptionParams{id, option, value}, &result); err != nil {
		return err
	}
	if result.ConfigOptions != nil {
		state.ConfigOptions = result.ConfigOptions
	}
	return nil
}

// chooseMode picks the mode in which the agent works rather than talks.
func (r *Runtime) chooseMode(ctx context.Context, id string, state *sessionState) error {
	if option := find(state.ConfigOptions, modeCategory); option != nil {
		best := bestMode(option.modes())
		if best == "" || option.is(best) {
			return nil
		}
		return r.set(ctx, id, state, option.ID, best)
	}
	best := bestMode(state.Modes.Available)
	if best == "" || best == state.Modes.Current {
		return nil
	}
	return r.call(ctx, r.flavour.Control, "session/set_mode", setModeParams{id, best}, nil)
}

// bestMode returns the id of the mode that lets an agent act, or "".
func bestMode(modes []sessionMode) string {
	best, bestScore := "", 0
	for _, m := range modes {
		if score := max(modeScore(m.ID), modeScore(m.Name)); score > bestScore && !talks(m.ID) && !talks(m.Name) {
			best, bestScore = m.ID, score
		}
	}
	return best
}

func modeScore(name string) int {
	name = strings.ToLower(name)
	switch {
	case name == "agent":
		return 3
	case strings.Contains(name, "agent"):
		return 2
	case strings.Contains(name, "full"), strings.Contains(name, "tool"):
		return 1
	}
	return 0
}

// talks reports whether a mode only asks, plans or reads.
func talks(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"ask", "plan", "read-only", "readonly", "read only"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// find returns the option of a category, or with that id.
func find(options []configOption, category string) *configOption {
	for i := range options {
		if options[i].Category == category {
			return &options[i]
		}
	}
	for i := range options {
		if options[i].ID == category {
			return &options[i]
		}
	}
	return nil
}

func (o configOption) offers(value string) bool {
	if k := o.Current.Kind(); k == 't' || k == 'f' {
		return value == "true" || value == "false"
	}
	return slices.ContainsFunc(flatten(o.Options), func(v optionValue) bool { return v.Value == value })
}

func (o configOption) is(value string) bool {
	return jsonrpc.Text(o.Current) == value || string(o.Current) == value
}

func (o configOption) modes() []sessionMode {
	var modes []sessionMode
	for _, v := range flatten(o.Options) {
		modes = append(modes, sessionMode{v.Value, v.Name})
	}
	return modes
}

// flatten resolves groups.
func flatten(values []optionValue) []optionValue {
	var flat []optionValue
	for _, v := range values {
		if v.Options != nil {
			flat = append(flat, flatten(v.Options)...)
			continue
		}
		flat = append(flat, v)
	}
	return flat
}
