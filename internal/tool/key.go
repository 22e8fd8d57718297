package tool

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json" // for Number
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Key tells whether two calls are equal: the same tool with arguments that are
// equal as JSON. The order of members does not matter, that of array items
// does, and numbers count by value (1, 1.0 and 10e-1 are one number; nothing
// is rounded). It is a SHA-256 sum, so an agent cannot make two different calls
// look like one.
type Key [sha256.Size]byte

func keyOf(toolName string, args any) Key {
	text := appendString(nil, toolName)
	return sha256.Sum256(appendCanonical(text, args))
}

// appendCanonical appends the one form that all values have that are equal to
// v. Every value says its kind and length before its content, so that no two
// different values have the same form, nor one that begins another.
func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case json.Number:
		return appendString(append(b, '0'), canonicalNumber(string(v)))
	case string:
		return appendString(append(b, '"'), v)
	case []any:
		b = binary.AppendUvarint(append(b, '['), uint64(len(v)))
		for _, item := range v {
			b = appendCanonical(b, item)
		}
		return b
	case map[string]any:
		b = binary.AppendUvarint(append(b, '{'), uint64(len(v)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendCanonical(appendString(b, name), v[name])
		}
		return b
	}
	panic("tool: not a decoded JSON value")
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// canonicalNumber returns the shortest form <digits>e<exponent> of a literal
// that [decode] let through, with digits that neither begin nor end with 0.
func canonicalNumber(literal string) string {
	digits, negative := strings.CutPrefix(literal, "-")
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(digits[i+1:]) // decode has looked at it
		digits = digits[:i]
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		digits = whole + fraction
		exponent -= len(fraction)
	}
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0" // also for -0
	}
	significant := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + significant + "e" + strconv.Itoa(exponent)
}
