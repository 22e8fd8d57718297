package proc

import "bytes"

var idPrefix = []byte(RuntimeIDEnv + "=")

// carriesID reports whether an environment, as variables that end in NUL, has
// one of the runtime ids.
func carriesID(environ []byte, ids map[string]bool) bool {
	for len(environ) > 0 {
		i := bytes.Index(environ, idPrefix)
		if i < 0 {
			return false
		}
		value := environ[i+len(idPrefix):]
		id, rest, _ := bytes.Cut(value, []byte{0})
		if (i == 0 || environ[i-1] == 0) && ids[string(id)] {
			return true
		}
		environ = rest
	}
	return false
}
