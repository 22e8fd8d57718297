package settings

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

// Update merges an object in the shape of the file into the file (RFC 7396:
// what it omits stays, null removes), and returns the whole file's content as
// it is now, secrets included: it is the operator's own.
//
// Nothing is written unless every check passes, in this order:
// SETTINGS_READ_FAILED; the shape (IPC_UNAVAILABLE, details {type, error});
// DEFAULT_PROVIDER_UNAVAILABLE {provider, error}; the effort lists
// (INVALID_INPUT {provider, effortLevel}) and other values (INVALID_INPUT
// {error}); OLLAMA_BASE_URL_INVALID {field, value, error};
// OLLAMA_REQUEST_FAILED {field, value} for the timeout; with ollama as the
// default OLLAMA_API_KEY_REQUIRED, MODEL_REQUIRED; SETTINGS_WRITE_FAILED {path,
// error}. What the update does not touch is not checked, so that an old mistake
// never stops a new choice.
func (f *File) Update(ctx context.Context, update jsontext.Value) (jsontext.Value, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	st := f.load()
	if st.err != nil {
		return nil, f.readFailed(st.err)
	}
	change, err := parseChange(update)
	if err != nil {
		return nil, err
	}
	merged, err := st.document.merge(change.document)
	if err != nil {
		return nil, shapeError(err.Error())
	}
	merged, err = tidy(merged)
	if err != nil {
		return nil, shapeError(err.Error())
	}
	result, _ := parse(merged)
	if err := f.check(change, result); err != nil {
		return nil, err
	}
	encoded, err := merged.encode()
	if err != nil {
		return nil, shapeError(err.Error())
	}
	pretty := encoded.Clone()
	if err := pretty.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, shapeError(err.Error())
	}
	if err := f.write(append(pretty, '\n')); err != nil {
		return nil, fault.Wrap(fault.SettingsWriteFailed, "settings.write", err, "The settings file could not be written.").
			With("path", f.path).With("error", err.Error())
	}
	f.load()
	return encoded, nil
}

// change is an update by itself.
type change struct {
	document document
	settings Settings
	problems []Problem // breaches of rules; the shape is right
}

func parseChange(update jsontext.Value) (change, error) {
	d, err := parseDocument(update)
	if err != nil {
		return change{}, shapeError(err.Error())
	}
	s, problems := parse(d)
	for _, p := range problems {
		if !p.rule {
			return change{}, shapeError(p.String())
		}
	}
	return change{d, s, problems}, nil
}

func shapeError(msg string) error {
	return fault.New(fault.IPCUnavailable, "The settings do not have the expected shape: "+msg+".").
		With("type", "update_settings").With("error", msg)
}

// check applies the rules to a change and to the settings that it results in.
func (f *File) check(c change, result Settings) error {
	if err := f.checkDefault(c.settings.DefaultProvider); err != nil {
		return err
	}
	if err := checkEfforts(c.settings); err != nil {
		return err
	}
	for _, p := range c.problems {
		if err := ruleError(c, p); err != nil {
			return err
		}
	}
	_, touchesOllama := c.providerEntry(ollama)
	if result.DefaultProvider != ollama || c.settings.DefaultProvider != ollama && !touchesOllama {
		return nil
	}
	if result.Ollama.APIKey == "" {
		return fault.New(fault.OllamaAPIKeyRequired, "Ollama needs an API key to be the default provider; for a local server any word does, such as ollama.")
	}
	_, err := result.EffortArgs(ollama, "default")
	return err
}

func (f *File) checkDefault(code string) error {
	// Whether ollama's server answers now says little about the next hour.
	if code == "" || code == ollama || f.Available == nil {
		return nil
	}
	ok, why := f.Available(code)
	if ok {
		return nil
	}
	return fault.New(fault.DefaultProviderUnavailable, "The provider "+code+" is not available on this machine.").
		With("provider", code).With("error", why)
}

func checkEfforts(s Settings) error {
	for _, code := range Providers {
		for _, level := range Levels {
			if broken := s.providers[code].efforts[level].broken; broken != nil {
				return fault.New(fault.InvalidInput, "The entry "+broken.Path+" cannot be used: "+broken.Msg+".").
					With("provider", code).With("effortLevel", level)
			}
		}
	}
	return nil
}

// ruleError returns the error of a broken rule in the order of the problems,
// which is that of the documentation: effort lists are judged before.
func ruleError(c change, p Problem) error {
	entry, _ := c.providerEntry(ollama)
	switch p.Path {
	case "providerSettings.ollama.baseUrl":
		value, _ := entry.get("baseUrl")
		return fault.New(fault.OllamaBaseURLInvalid, "The base URL of Ollama "+p.Msg+".").
			With("field", "baseUrl").With("value", value).With("error", p.Msg)
	case "providerSettings.ollama.timeoutMs":
		value, _ := entry.get("timeoutMs")
		return fault.New(fault.OllamaRequestFailed, "The timeout of Ollama "+p.Msg+" (milliseconds).").
			With("field", "timeoutMs").With("value", value)
	}
	return fault.New(fault.InvalidInput, "The entry "+p.Path+" "+p.Msg+".").With("error", p.String())
}

func (c change) providerEntry(code string) (document, bool) {
	return providerEntry(c.document, code)
}

func providerEntry(d document, code string) (document, bool) {
	all, ok := d.get("providerSettings")
	if !ok {
		return nil, false
	}
	entries, err := parseDocument(all)
	if err != nil {
		return nil, false
	}
	entry, ok := entries.get(code)
	if !ok {
		return nil, false
	}
	d, err = parseDocument(entry)
	return d, err == nil
}

// tidy brings a document into the form that the Desktop app reads too:
// providerSettings is there, and an ollama entry names its address and timeout.
// An address loses the slashes at its end, an API key the blanks around it.
func tidy(d document) (document, error) {
	if _, ok := d.get("providerSettings"); !ok {
		d = d.set("providerSettings", jsontext.Value("{}"))
	}
	entry, ok := providerEntry(d, ollama)
	if !ok {
		return d, nil
	}
	if _, ok := entry.get("timeoutMs"); !ok {
		entry = entry.set("timeoutMs", jsontext.Value("120000"))
	}
	if base, ok := entry.text("baseUrl"); ok || entry.index("baseUrl") < 0 {
		if normalised, err := normaliseBaseURL(base); err == nil {
			entry = entry.set("baseUrl", quote(normalised))
		}
	}
	if key, ok := entry.text("apiKey"); ok {
		entry = entry.set("apiKey", quote(strings.TrimSpace(key)))
	}
	encoded, err := entry.encode()
	if err != nil {
		return nil, err
	}
	patch, err := document{{ollama, encoded}}.encode()
	if err != nil {
		return nil, err
	}
	return d.merge(document{{"providerSettings", patch}})
}

// text returns a member that is a string.
func (d document) text(name string) (string, bool) {
	v, ok := d.get(name)
	if !ok || v.Kind() != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err == nil
}

func quote(s string) jsontext.Value {
	v, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return jsontext.Value(`""`) // not UTF-8, which no parsed document holds
	}
	return v
}
