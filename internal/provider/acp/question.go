package acp

import (
	"github.com/pedelec/pedelec-core/internal/provider"
)

// question reads what a tool call wants to do.
func (c toolCall) question() provider.Question {
	q := provider.Question{
		Reads: c.Kind == "read" || c.Kind == "search",
		Shell: c.Kind == "execute",
	}
	for _, l := range c.Locations {
		q.Paths = append(q.Paths, l.Path)
	}
	for _, block := range c.Content {
		if block.Path != "" {
			q.Paths = append(q.Paths, block.Path)
		}
	}
	q.Collect(c.RawInput)
	if q.Reads { // whether it searches names or contents is not told
		q.CollectPattern(c.RawInput)
	}
	return q
}

// decision picks the answer among the options that the agent offers, by kind: ids
// differ between agents. It never picks one that outlasts this question, unless
// that is the only way to say no, or the user has allowed everything.
func decision(options []permissionOption, allowed, everything bool) outcome {
	wanted := []string{"reject_once", "reject_always"}
	if allowed {
		wanted = []string{"allow_once"}
		if everything {
			wanted = append(wanted, "allow_always")
		}
		wanted = append(wanted, "reject_once", "reject_always")
	}
	for _, kind := range wanted {
		for _, option := range options {
			if option.Kind == kind {
				return outcome{Outcome: "selected", OptionID: option.ID}
			}
		}
	}
	return cancelledOutcome
}

var cancelledOutcome = outcome{Outcome: "cancelled"}
