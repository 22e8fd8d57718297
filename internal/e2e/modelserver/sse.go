package modelserver

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json"
)

// writeEvent writes one named server-sent event, in two pieces that part a code
// point if split says so.
func writeEvent(w http.ResponseWriter, kind string, data any, split bool) error {
	b, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		return err
	}
	b = append([]byte("event: "+kind+"\ndata: "), b...)
	b = append(b, "\n\n"...)
	pieces := [][]byte{b}
	if i := bytes.IndexFunc(b, func(r rune) bool { return r > 0x7f }); split && i >= 0 {
		pieces = [][]byte{b[:i+1], b[i+1:]}
	}
	for _, piece := range pieces {
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
	}
	return nil
}
