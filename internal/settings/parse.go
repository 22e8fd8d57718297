package settings

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDays bounds a number of days far below what a duration can hold.
const maxDays = 36_500

// maxSeconds is a watchdog of a year, which is as good as none.
const maxSeconds = 366 * 24 * 3600

// secretName matches environment variables whose value is taken for a secret.
var secretName = regexp.MustCompile(`(?i)key|token|secret|password|passwd|credential`)

// parser reads a document leniently: what cannot be used is noted and left at
// its default.
type parser struct {
	problems []Problem
}

// parse returns the settings of a document and everything in it that cannot be
// used.
func parse(d document) (Settings, []Problem) {
	var p parser
	s := defaults()
	if v, ok := d.get("defaultProvider"); ok {
		s.DefaultProvider = p.word("defaultProvider", v, Providers)
	}
	if v, ok := d.get("requireToken"); ok {
		s.RequireToken = p.guard("requireToken", v)
	}
	if v, ok := d.get("allowedOrigins"); ok {
		s.AllowedOrigins = p.usableStrings("allowedOrigins", v)
	}
	if v, ok := d.get("pickerCommand"); ok {
		s.PickerCommand, _ = p.command("pickerCommand", v)
	}
	if v, ok := d.get("retention"); ok {
		p.retention(v, &s.Retention)
	}
	if v, ok := d.get("watchdogs"); ok {
		p.watchdogs(v, &s.Watchdogs)
	}
	if v, ok := d.get("providerSettings"); ok {
		p.providers(v, &s)
	}
	return s, p.problems
}

// note records a value of the wrong shape.
func (p *parser) note(path, msg string) *Problem { return p.add(Problem{Path: path, Msg: msg}) }

// breaks records a value of the right shape that breaks a rule.
func (p *parser) breaks(path, msg string) *Problem {
	return p.add(Problem{Path: path, Msg: msg, rule: true})
}

func (p *parser) add(problem Problem) *Problem {
	p.problems = append(p.problems, problem)
	return &problem
}

func (p *parser) object(path string, v jsontext.Value) (document, *Problem) {
	if v.Kind() != '{' {
		return nil, p.note(path, "is not an object")
	}
	d, err := parseDocument(v)
	if err != nil {
		return nil, p.note(path, err.Error())
	}
	return d, nil
}

func (p *parser) str(path string, v jsontext.Value) (string, bool) {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		p.note(path, "is not a string")
		return "", false
	}
	return s, true
}

func (p *parser) word(path string, v jsontext.Value, words []string) string {
	s, ok := p.str(path, v)
	if ok && !slices.Contains(words, s) {
		p.note(path, fmt.Sprintf("%q is not one of %s", s, strings.Join(words, ", ")))
		return ""
	}
	return s
}

// guard reads a switch that protects something: what is not plainly off is on.
func (p *parser) guard(path string, v jsontext.Value) bool {
	if v.Kind() != 't' && v.Kind() != 'f' {
		p.note(path, "is neither true nor false and counts as true")
	}
	return v.Kind() != 'f'
}

func (p *parser) number(path string, v jsontext.Value, low, high uint64) (uint64, bool) {
	var n uint64
	if v.Kind() != '0' || json.Unmarshal(v, &n) != nil {
		p.note(path, "is not a whole number")
		return 0, false
	}
	if n < low || n > high {
		p.breaks(path, fmt.Sprintf("is not between %d and %d", low, high))
		return 0, false
	}
	return n, true
}

func (p *parser) array(path string, v jsontext.Value) ([]jsontext.Value, *Problem) {
	var items []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &items) != nil {
		return nil, p.note(path, "is not a list")
	}
	return items, nil
}

// strings reads a list that is of use only as a whole.
func (p *parser) strings(path string, v jsontext.Value) (list []string, broken *Problem) {
	items, broken := p.array(path, v)
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		s, ok := p.str(at, item)
		if !ok {
			broken = &Problem{Path: at, Msg: "is not a string"}
		}
		list = append(list, s)
	}
	if broken != nil {
		return nil, broken
	}
	return list, nil
}

// usableStrings reads a list of which each item counts by itself.
func (p *parser) usableStrings(path string, v jsontext.Value) (list []string) {
	items, _ := p.array(path, v)
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		s, ok := p.str(at, item)
		if ok && strings.TrimSpace(s) == "" {
			p.note(at, "is blank")
			continue
		}
		if ok {
			list = append(list, s)
		}
	}
	return list
}

// command reads a program with its arguments; an empty list stands for none.
func (p *parser) command(path string, v jsontext.Value) ([]string, *Problem) {
	list, broken := p.strings(path, v)
	if broken != nil {
		return nil, broken
	}
	if len(list) > 0 && strings.TrimSpace(list[0]) == "" {
		return nil, p.note(path+"[0]", "is blank; the name of a program stands here")
	}
	for i, s := range list {
		if strings.ContainsRune(s, 0) {
			return nil, p.note(fmt.Sprintf("%s[%d]", path, i), "holds a NUL character")
		}
	}
	return list, nil
}

func (p *parser) retention(v jsontext.Value, r *Retention) {
	d, broken := p.object("retention", v)
	if broken != nil {
		return
	}
	const most = 1 << 50 // more than any disk; keeps sums far from overflow
	p.field(d, "retention", "journalEvents", 1, 1<<31-1, func(n uint64) { r.JournalEvents = int(n) })
	p.field(d, "retention", "journalBytes", 1, most, func(n uint64) { r.JournalBytes = int64(n) })
	p.field(d, "retention", "storeBytes", 1, most, func(n uint64) { r.StoreBytes = int64(n) })
	p.field(d, "retention", "endedThreadDays", 0, maxDays, func(n uint64) { r.EndedThreads = time.Duration(n) * day })
	p.field(d, "retention", "idleThreadDays", 0, maxDays, func(n uint64) { r.IdleThreads = time.Duration(n) * day })
}

func (p *parser) watchdogs(v jsontext.Value, w *Watchdogs) {
	d, broken := p.object("watchdogs", v)
	if broken != nil {
		return
	}
	p.field(d, "watchdogs", "silenceSeconds", 0, maxSeconds, func(n uint64) { w.Silence = time.Duration(n) * time.Second })
	p.field(d, "watchdogs", "sessionStartSeconds", 0, maxSeconds, func(n uint64) { w.SessionStart = time.Duration(n) * time.Second })
}

func (p *parser) field(d document, parent, name string, low, high uint64, use func(uint64)) {
	v, ok := d.get(name)
	if !ok {
		return
	}
	if n, ok := p.number(parent+"."+name, v, low, high); ok {
		use(n)
	}
}

func (p *parser) providers(v jsontext.Value, s *Settings) {
	d, broken := p.object("providerSettings", v)
	if broken != nil {
		for _, code := range Providers {
			s.providers[code] = provider{broken: broken}
		}
		return
	}
	for _, m := range d {
		path := "providerSettings." + m.name
		if !slices.Contains(Providers, m.name) {
			p.note(path, "is no provider")
			continue
		}
		if m.value.Kind() == 'n' {
			continue
		}
		entry, broken := p.object(path, m.value)
		if broken != nil {
			s.providers[m.name] = provider{broken: broken}
			continue
		}
		s.providers[m.name] = p.provider(path, m.name, entry)
		if m.name == ollama {
			p.ollama(path, entry, &s.Ollama)
		}
	}
}

func (p *parser) provider(path, code string, d document) provider {
	var out provider
	if v, ok := d.get("effortsArgs"); ok {
		out.efforts = p.efforts(path+".effortsArgs", code, v)
	}
	if v, ok := d.get("command"); ok {
		out.command, out.commandBad = p.command(path+".command", v)
		if out.commandBad == nil && len(out.command) == 0 {
			out.commandBad = p.note(path+".command", "is empty; the name of a program stands there, or the entry is left out")
		}
	}
	if v, ok := d.get("env"); ok {
		out.env = p.env(path+".env", v)
	}
	if v, ok := d.get("permission"); ok {
		out.permission = p.word(path+".permission", v, []string{PermitWorkspace, PermitReadOnly, PermitFull})
		if out.permission == "" {
			out.permission = PermitReadOnly
		}
	}
	return out
}

func (p *parser) efforts(path, code string, v jsontext.Value) map[string]effortList {
	out := map[string]effortList{}
	d, broken := p.object(path, v)
	for _, level := range Levels {
		if broken != nil {
			out[level] = effortList{broken: broken}
			continue
		}
		if v, ok := d.get(level); ok {
			out[level] = p.effortList(path+"."+level, code, v)
		}
	}
	return out
}

func (p *parser) effortList(path, code string, v jsontext.Value) effortList {
	args, broken := p.strings(path, v)
	if broken != nil {
		return effortList{broken: broken}
	}
	at, msg := checkPairs(code, args)
	if msg == "" {
		return effortList{args: args}
	}
	if at != wholeList {
		path = fmt.Sprintf("%s[%d]", path, at)
	}
	return effortList{broken: p.breaks(path, msg)}
}

func (p *parser) env(path string, v jsontext.Value) map[string]string {
	d, broken := p.object(path, v)
	if broken != nil {
		return nil
	}
	out := map[string]string{}
	for _, m := range d {
		at := path + "." + m.name
		if m.name == "" || strings.ContainsAny(m.name, "=\x00") {
			p.note(at, "is not a name that an environment variable can have")
			continue
		}
		value, ok := p.str(at, m.value)
		if ok && strings.ContainsRune(value, 0) {
			p.note(at, "holds a NUL character")
			continue
		}
		if ok {
			out[m.name] = value
		}
	}
	return out
}

func (p *parser) ollama(path string, d document, o *Ollama) {
	if v, ok := d.get("baseUrl"); ok {
		if s, ok := p.str(path+".baseUrl", v); ok {
			base, err := normaliseBaseURL(s)
			if err != nil {
				p.breaks(path+".baseUrl", err.Error())
			}
			o.BaseURL = base
		}
	}
	if v, ok := d.get("timeoutMs"); ok {
		const most = 24 * 3600 * 1000
		if n, ok := p.number(path+".timeoutMs", v, 1, most); ok {
			o.Timeout = time.Duration(n) * time.Millisecond
		}
	}
	o.APIKey = p.key(path, "apiKey", d)
	o.TavilyAPIKey = p.key(path, "tavilyApiKey", d)
}

func (p *parser) key(parent, name string, d document) string {
	v, ok := d.get(name)
	if !ok {
		return ""
	}
	s, _ := p.str(parent+"."+name, v)
	return strings.TrimSpace(s)
}

// normaliseBaseURL returns the address of an Ollama server without slashes at
// its end; blank stands for the default. With an error it returns raw.
func normaliseBaseURL(raw string) (string, error) {
	trimmed := strings.TrimSpace(raw)
	if trimmed == "" {
		return DefaultOllamaURL, nil
	}
	u, err := url.Parse(trimmed)
	if err != nil {
		return raw, fmt.Errorf("is not a URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return raw, fmt.Errorf("is not an http or https URL")
	}
	if u.Hostname() == "" {
		return raw, fmt.Errorf("names no host")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if strings.EqualFold(segment, "api") {
			return raw, fmt.Errorf("ends before /api, which is added")
		}
	}
	return strings.TrimRight(trimmed, "/"), nil
}
