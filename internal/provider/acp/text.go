package acp

import (
	"strings"
	"unicode"
)

// instructionsFile is the copy of the host instructions that an agent can read
// again after it has forgotten the beginning of a conversation.
const instructionsFile = "instructions.md"

// ordinary returns a user's text such that an agent takes it as text: one that
// begins with "/", even behind white space, would be a command of the agent.
func ordinary(text string) string {
	if strings.HasPrefix(strings.TrimLeftFunc(text, unicode.IsSpace), "/") {
		return "- " + text
	}
	return text
}

// withInstructions puts the host instructions in front of a session's first text,
// which follows unchanged. path names the file that holds a copy; "" = none.
func withInstructions(instructions, path, text string) string {
	var b strings.Builder
	b.WriteString("[Pedelec Host Instructions]\n")
	b.WriteString(strings.TrimSpace(instructions))
	if path != "" {
		b.WriteString("\n\nA copy of these instructions is kept in ")
		b.WriteString(path)
		b.WriteString("; read it again whenever you no longer have them before you.")
	}
	b.WriteString("\n[/Pedelec Host Instructions]\n\n[User Message]\n")
	b.WriteString(text)
	return b.String()
}
