package settings

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// document is a JSON object with its members in the order of the file, so that
// a write keeps what this package does not know.
type document []member

type member struct {
	name  string
	value jsontext.Value
}

var errNotObject = errors.New("is not a JSON object")

// parseDocument reads exactly one JSON object. Duplicate names and invalid
// UTF-8 are errors.
func parseDocument(data []byte) (document, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, err
		}
		return nil, errNotObject
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var d document
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		d = append(d, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has something behind its JSON object")
	}
	return d, nil
}

// get returns a member's value; absent and null are the same.
func (d document) get(name string) (jsontext.Value, bool) {
	i := d.index(name)
	if i < 0 || d[i].value.Kind() == 'n' {
		return nil, false
	}
	return d[i].value, true
}

func (d document) index(name string) int {
	return slices.IndexFunc(d, func(m member) bool { return m.name == name })
}

// set returns d with the member's value replaced, or added at the end.
func (d document) set(name string, value jsontext.Value) document {
	if i := d.index(name); i >= 0 {
		d = slices.Clone(d)
		d[i].value = value
		return d
	}
	return append(d[:len(d):len(d)], member{name, value})
}

// merge returns d changed by a JSON merge patch (RFC 7396): objects merge
// member by member, null removes, everything else replaces.
func (d document) merge(patch document) (document, error) {
	d = slices.Clone(d)
	for _, m := range patch {
		if m.value.Kind() == 'n' {
			d = slices.DeleteFunc(d, func(o member) bool { return o.name == m.name })
			continue
		}
		value := m.value
		if value.Kind() == '{' {
			old, _ := d.get(m.name)
			merged, err := mergeValue(old, value)
			if err != nil {
				return nil, err
			}
			value = merged
		}
		d = d.set(m.name, value)
	}
	return d, nil
}

func mergeValue(old, patch jsontext.Value) (jsontext.Value, error) {
	var base document
	if old.Kind() == '{' {
		var err error
		if base, err = parseDocument(old); err != nil {
			return nil, err
		}
	}
	changes, err := parseDocument(patch)
	if err != nil {
		return nil, err
	}
	merged, err := base.merge(changes)
	if err != nil {
		return nil, err
	}
	return merged.encode()
}

// encode returns the object as compact JSON.
func (d document) encode() (jsontext.Value, error) {
	var b bytes.Buffer
	enc := jsontext.NewEncoder(&b)
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return nil, err
	}
	for _, m := range d {
		if err := enc.WriteToken(jsontext.String(m.name)); err != nil {
			return nil, err
		}
		if err := enc.WriteValue(m.value); err != nil {
			return nil, err
		}
	}
	if err := enc.WriteToken(jsontext.EndObject); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
