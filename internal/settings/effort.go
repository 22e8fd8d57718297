package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Words of the agents for how hard to think.
var (
	codexEfforts       = []string{"low", "medium", "high", "xhigh", "max"}
	claudeEfforts      = []string{"low", "medium", "high", "xhigh", "max"}
	antigravityEfforts = []string{"low", "medium", "high"}
)

// codexReasoning matches the one codex override that is allowed, its value
// quoted or not; spaces around = and inside the quotes are tolerated.
var codexReasoning = regexp.MustCompile(`^\s*model_reasoning_effort\s*=\s*(?:"\s*([a-z]+)\s*"|([a-z]+))\s*$`)

// effortKeys says which keys a provider takes and how a value is judged.
var effortKeys = map[string]map[string]func(value string) bool{
	"codex":       {"-m": anyModel, "-c": codexOverride},
	"antigravity": {"--model": anyModel, "--effort": oneOf(antigravityEfforts)},
	"opencode":    {"--model": anyModel},
	"cursor":      {"--model": anyModel},
	"claude":      {"--model": anyModel, "--effort": oneOf(claudeEfforts)},
	ollama:        {"--model": anyModel},
}

func anyModel(string) bool { return true }

func oneOf(words []string) func(string) bool {
	return func(v string) bool { return slices.Contains(words, v) }
}

func codexOverride(v string) bool {
	m := codexReasoning.FindStringSubmatch(v)
	return m != nil && slices.Contains(codexEfforts, m[1]+m[2])
}

// wholeList is what checkPairs returns when not a single item is at fault.
const wholeList = -1

// checkPairs applies the rules of a provider to a flat list of keys and values.
// msg is "" when all is well; else at is the index of the item at fault, or
// wholeList.
func checkPairs(code string, args []string) (at int, msg string) {
	if len(args)%2 != 0 {
		return wholeList, "keys and values must come in pairs"
	}
	keys := effortKeys[code]
	for i := 0; i < len(args); i += 2 {
		key, value := args[i], args[i+1]
		judge, known := keys[key]
		if !known {
			return i, fmt.Sprintf("%q is not an argument that %s takes here", key, code)
		}
		for k := 0; k < i; k += 2 {
			if args[k] == key {
				return i, fmt.Sprintf("%s stands here twice", key)
			}
		}
		if strings.TrimSpace(value) == "" {
			return i + 1, fmt.Sprintf("the value of %s is blank", key)
		}
		if !judge(value) {
			return i + 1, fmt.Sprintf("%q is not a value that %s takes for %s", value, code, key)
		}
	}
	return wholeList, ""
}

// modelOf returns the value of --model, or "".
func modelOf(args []string) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "--model" {
			return args[i+1]
		}
	}
	return ""
}
