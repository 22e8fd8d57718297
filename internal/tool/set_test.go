package tool

import (
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
)

func TestSet(t *testing.T) {
	paint := named("paint")
	paint.ArgsSchema = jsontext.Value(`{"type":"object","required":["colour"]}`)
	skills, err := Skills{Tools: []Tool{paint, named("erase")}}.Check()
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet(skills, time.Now)

	if got, ok := set.Lookup("erase"); !ok || got.Name != "erase" || got.Timeout != DefaultTimeout {
		t.Errorf("Lookup: %+v, %t", got, ok)
	}
	if _, ok := set.Lookup("Erase"); ok {
		t.Error("a tool is found under another name")
	}
	if _, err := set.Check("Erase", jsontext.Value(`{}`)); !fault.Is(err, fault.ToolNotFound) || fault.From(err).Details["toolName"] != "Erase" {
		t.Errorf("unknown tool: %v", err)
	}
	if _, err := set.Check("paint", jsontext.Value(`{}`)); !fault.Is(err, fault.ToolArgsInvalid) {
		t.Errorf("bad arguments: %v", err)
	}
	call, err := set.Check("paint", jsontext.Value(`{"colour":"red"}`))
	if err != nil || call.Tool != "paint" || call.Timeout != DefaultTimeout {
		t.Errorf("%+v, %v", call, err)
	}
}

// A record of an earlier version may hold what is refused today.
func TestSetTellsOfAStoredSchemaThatNoLongerCompiles(t *testing.T) {
	old := named("old")
	old.ArgsSchema = jsontext.Value(`{"type":"array"}`)
	set := NewSet(Skills{Tools: []Tool{old}}, time.Now)
	for range 2 {
		if _, err := set.Check("old", jsontext.Value(`{}`)); !fault.Is(err, fault.ToolsManifestInvalid) {
			t.Errorf("got %v", err)
		}
	}
}

func TestSetServesManyAtOnce(t *testing.T) {
	paint := named("paint")
	paint.ArgsSchema = jsontext.Value(`{"properties":{"n":{"type":"integer"}},"patternProperties":{"^x":{"type":"string"}}}`)
	set := NewSet(Skills{Tools: []Tool{paint, named("erase")}}, time.Now)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 50 {
				if _, err := set.Check("paint", jsontext.Value(`{"n":1,"x1":"y"}`)); err != nil {
					t.Error(err)
				}
				if _, err := set.Check("paint", jsontext.Value(`{"n":"one"}`)); err == nil {
					t.Errorf("%d: bad arguments were taken", i)
				}
				if _, err := set.Check("erase", jsontext.Value(`{"n":1}`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
