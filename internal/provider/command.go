package provider

import (
	"path/filepath"
	"runtime"
	"strings"
)

// cliName is the program by which an agent reaches frontend tools from its shell.
const cliName = "pedelec-cli"

// shellMeta are the bytes that mean something to a shell outside quotes.
const shellMeta = ";&|<>()$`\\*?[]{}~#!\"'"

// cmdMeta are the bytes that mean something to cmd.exe even inside quotes.
const cmdMeta = "&|<>^%"

// smartQuotes end and begin quotes for PowerShell as ' and " do.
const smartQuotes = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e"

// isSplitByWindows reports whether cmd.exe or PowerShell may see more than one command
// in what is one to us. PowerShell takes \" for the end of a quote, behind which a
// second command, or one in parentheses, can stand.
func isSplitByWindows(command string) bool {
	return strings.ContainsAny(command, cmdMeta+smartQuotes) ||
		strings.Contains(command, `\"`) && strings.ContainsAny(command, ";()")
}

// simpleCommand splits a shell command into words if it is one simple command
// whose words are literal: no second command, no substitution, no redirection, no
// expansion, no line break. Anything else is not ok; when in doubt it is not.
func simpleCommand(command string) (words []string, ok bool) {
	if strings.ContainsAny(command, "\n\r\x00") {
		return nil, false
	}
	if runtime.GOOS == "windows" && isSplitByWindows(command) {
		return nil, false
	}
	rest := strings.Trim(command, " \t")
	for rest != "" {
		var word string
		if word, rest, ok = shellWord(rest); !ok {
			return nil, false
		}
		words = append(words, word)
		rest = strings.TrimLeft(rest, " \t")
	}
	return words, len(words) > 0
}

// shellWord takes one word, which may consist of quoted and unquoted pieces, from
// the front of s.
func shellWord(s string) (word, rest string, ok bool) {
	var b strings.Builder
	for s != "" && s[0] != ' ' && s[0] != '\t' {
		var piece string
		switch s[0] {
		case '\'':
			end := strings.IndexByte(s[1:], '\'')
			if end < 0 {
				return "", "", false
			}
			piece, s = s[1:1+end], s[end+2:]
		case '"':
			if piece, s, ok = doubleQuoted(s[1:]); !ok {
				return "", "", false
			}
		default:
			if strings.IndexByte(shellMeta, s[0]) >= 0 {
				return "", "", false
			}
			piece, s = s[:1], s[1:]
		}
		b.WriteString(piece)
	}
	return b.String(), s, true
}

// doubleQuoted takes the rest of a double-quoted piece. Only \" and \\ are
// understood of what a shell does inside it; the rest is refused.
func doubleQuoted(s string) (piece, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), s[i+1:], true
		case '$', '`', '!':
			return "", "", false
		case '\\':
			i++
			if i == len(s) || (s[i] != '"' && s[i] != '\\') {
				return "", "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// isCLI reports whether a program name is our own: by its bare name, or by the
// path of the link in the daemon's bin folder.
func isCLI(name, binDir string) bool {
	if runtime.GOOS == "windows" {
		name = strings.TrimSuffix(name, ".exe")
	}
	return name == cliName || (binDir != "" && name == filepath.Join(binDir, cliName))
}
