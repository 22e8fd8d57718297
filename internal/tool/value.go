package tool

import (
	"bytes"
	"encoding/json" // for Number, the type in which the schema library takes exact numbers
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a number literal. The schema library computes with exact fractions,
// which grow with the exponent: 1e1000000 would take seconds and megabytes.
const (
	MaxNumberBytes = 64
	MaxExponent    = 400 // absolute value of the literal's exponent
)

// decoder makes Go values of JSON text: nil, bool, string, json.Number, []any
// and map[string]any.
type decoder struct {
	text     *jsontext.Decoder
	maxDepth int // arrays and objects inside each other
	depth    int // of the deepest value so far

	subschemas int // objects and booleans so far
}

// decode reads one JSON value that is nested at most maxDepth deep. Its errors
// are sentences without a full stop that follow "The arguments are refused: ".
func decode(text jsontext.Value, maxDepth int) (any, *decoder, error) {
	d := &decoder{text: jsontext.NewDecoder(bytes.NewBuffer(text)), maxDepth: maxDepth}
	v, err := d.value(0)
	if err != nil {
		return nil, nil, err
	}
	if _, err := d.text.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("something follows the JSON value")
	}
	return v, d, nil
}

func (d *decoder) value(depth int) (any, error) {
	token, err := d.text.ReadToken()
	if err != nil {
		return nil, syntaxError(err)
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		d.subschemas++
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		return d.number(token.String())
	}
	depth++
	if depth > d.maxDepth {
		return nil, d.refuse("it is nested deeper than %d levels", d.maxDepth)
	}
	d.depth = max(d.depth, depth)
	if token.Kind() == '[' {
		return d.array(depth)
	}
	return d.object(depth)
}

func (d *decoder) array(depth int) (any, error) {
	list := []any{}
	for d.text.PeekKind() != ']' {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.text.ReadToken()
	return list, syntaxError(err)
}

func (d *decoder) object(depth int) (any, error) {
	d.subschemas++
	members := map[string]any{}
	for d.text.PeekKind() != '}' {
		name, err := d.text.ReadToken()
		if err != nil {
			return nil, syntaxError(err)
		}
		key := name.String() // before the next token invalidates it
		if members[key], err = d.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := d.text.ReadToken()
	return members, syntaxError(err)
}

func (d *decoder) number(literal string) (any, error) {
	if len(literal) > MaxNumberBytes {
		return nil, d.refuse("the number has %d digits and signs, %d are allowed", len(literal), MaxNumberBytes)
	}
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(literal[i+1:])
		if err != nil || exponent > MaxExponent || exponent < -MaxExponent {
			return nil, d.refuse("the exponent of %s is beyond ±%d", literal, MaxExponent)
		}
	}
	return json.Number(literal), nil
}

// refuse returns an error that names the value read last.
func (d *decoder) refuse(format string, args ...any) error {
	return fmt.Errorf("at '%s': %s", shorten(string(d.text.StackPointer()), maxPathBytes), fmt.Sprintf(format, args...))
}

// syntaxError says what is wrong with the text itself, at which place, and
// nothing of the package that found it.
func syntaxError(err error) error {
	var syntactic *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntactic) && syntactic.Err != nil:
		return fmt.Errorf("at '%s': it is not JSON: %w", shorten(string(syntactic.JSONPointer), maxPathBytes), syntactic.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not JSON: the text ends too early")
	}
	return fmt.Errorf("it is not JSON: %w", err)
}
