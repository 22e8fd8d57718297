package proc

import (
	"runtime"
	"slices"
	"strings"
)

// RuntimeIDEnv names the variable that marks a runtime and all that it starts.
const RuntimeIDEnv = "PEDELEC_RUNTIME"

// inherited lists the variables of the daemon that every runtime gets; a name
// that ends in * is a prefix. Anything else, such as another program's API
// keys, has to be asked for with Spec.Inherit or Spec.Env.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL",
	"LANG", "LANGUAGE", "LC_*", "TZ",
	"TMPDIR", "XDG_*",
	"TERM", "COLORTERM",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSH_AUTH_SOCK",
}

// inheritedWindows are the ones without which programs do not run on Windows.
var inheritedWindows = []string{
	"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "OS",
	"TEMP", "TMP", "USERPROFILE", "USERNAME", "USERDOMAIN", "COMPUTERNAME",
	"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "ALLUSERSPROFILE",
	"ProgramData", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432",
	"CommonProgramFiles", "CommonProgramFiles(x86)", "CommonProgramW6432",
	"PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS", "PSModulePath",
}

// removed are never passed on, whoever sets them: an agent that finds CLAUDECODE
// believes that it runs inside itself and refuses.
var removed = []string{"CLAUDECODE*", RuntimeIDEnv}

// noProxy are the hosts that must be reached directly: the daemon itself.
var noProxy = []string{"127.0.0.1", "localhost", "::1"}

// Environment builds the environment of a child: what every one inherits and what
// inherit names of base, then extra, where the last setting of a name wins, then
// what must be so. All three hold NAME=value, but for inherit: names, of which a
// final * makes a prefix.
func Environment(base, inherit, extra []string) []string {
	allow := slices.Concat(inherited, inherit)
	if runtime.GOOS == "windows" {
		allow = append(allow, inheritedWindows...)
	}
	env := variables{Select(base, allow)}
	for _, kv := range extra {
		if name, value, ok := cutVariable(kv); ok && !matchesAny(name, removed) {
			env.set(name, value)
		}
	}
	env.bypassProxy()
	env.speakUTF8()
	return env.list
}

// Select returns the variables of an environment that are named, of which a final
// * makes a prefix, each once. What is never passed on is not among them.
func Select(base, names []string) []string {
	var env variables
	for _, kv := range base {
		if name, value, ok := cutVariable(kv); ok && matchesAny(name, names) && !matchesAny(name, removed) {
			env.set(name, value)
		}
	}
	return env.list
}

// environment is that of a runtime: it carries the runtime's mark.
func environment(base, inherit, extra []string, runtimeID string) []string {
	return append(Environment(base, inherit, extra), RuntimeIDEnv+"="+runtimeID)
}

// variables is an environment in which each name stands once.
type variables struct{ list []string }

func (v *variables) index(name string) int {
	return slices.IndexFunc(v.list, func(kv string) bool {
		have, _, _ := cutVariable(kv)
		return sameName(have, name)
	})
}

func (v *variables) get(name string) string {
	i := v.index(name)
	if i < 0 {
		return ""
	}
	_, value, _ := cutVariable(v.list[i])
	return value
}

func (v *variables) set(name, value string) {
	kv := name + "=" + value
	if i := v.index(name); i >= 0 {
		v.list[i] = kv
		return
	}
	v.list = append(v.list, kv)
}

// bypassProxy extends both spellings of the exception list by loopback. Each
// keeps what it has; one that is missing starts from the other.
func (v *variables) bypassProxy() {
	upper, lower := v.get("NO_PROXY"), v.get("no_proxy")
	v.set("NO_PROXY", withLoopback(firstNonEmpty(upper, lower)))
	v.set("no_proxy", withLoopback(firstNonEmpty(lower, upper)))
}

// speakUTF8 gives a locale to an environment that has none, as that of a
// service: in the C locale some agents print question marks.
func (v *variables) speakUTF8() {
	if firstNonEmpty(v.get("LC_ALL"), v.get("LC_CTYPE"), v.get("LANG")) != "" {
		return
	}
	locale := "C.UTF-8"
	if runtime.GOOS == "darwin" { // has no C.UTF-8 before version 14
		locale = "en_US.UTF-8"
	}
	v.set("LANG", locale)
}

func withLoopback(list string) string {
	hosts := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	for _, host := range noProxy {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, ",")
}

func firstNonEmpty(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// cutVariable splits NAME=value. Windows has hidden names that begin with "=".
func cutVariable(kv string) (name, value string, ok bool) {
	i := strings.IndexByte(kv, '=')
	if i < 1 {
		return "", "", false
	}
	return kv[:i], kv[i+1:], true
}

func matchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		if !isPrefix {
			return sameName(name, pattern)
		}
		return len(name) >= len(prefix) && sameName(name[:len(prefix)], prefix)
	})
}

// sameName compares names as the system does.
func sameName(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}
