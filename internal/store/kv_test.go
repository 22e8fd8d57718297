package store

import (
	"testing"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestLedgersKeepWhatWasPut(t *testing.T) {
	path := testPath(t)
	s := openAt(t, path)
	processes, origins := s.KV(Processes), s.KV(Origins)
	must(t, processes.Put("r1", []byte("one")))
	must(t, processes.Put("r2", []byte("two")))
	must(t, processes.Put("r2", []byte("2")))
	must(t, processes.Delete("r1"))
	must(t, processes.Delete("r1"))
	must(t, origins.Put("https://a.example", nil))
	must(t, s.Close())

	s = openAt(t, path)
	all, err := s.KV(Processes).All()
	must(t, err)
	wantEqual(t, all, map[string][]byte{"r2": []byte("2")})
	all, err = s.KV(Origins).All()
	must(t, err)
	wantEqual(t, all, map[string][]byte{"https://a.example": {}})
}

func TestALedgerRefusesWhatItCannotKeep(t *testing.T) {
	s := open(t)
	wantCode(t, s.KV(Processes).Put("", nil), fault.Internal)
	wantCode(t, s.KV(Processes).Put("k", make([]byte, MaxLedgerValue+1)), fault.Internal)
	wantCode(t, s.KV("threads").Put("k", nil), fault.Internal)
}
