package provider

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/fault"
	"github.com/pedelec/pedelec-core/internal/thread"
)

func TestAToolAnswerIsWrittenForAModel(t *testing.T) {
	timeout := fault.New(fault.ToolTimeout, "The page did not answer.")
	for want, a := range map[string]thread.ToolAnswer{
		`{"a": 1}`: {Result: jsontext.Value(`{"a": 1}`)},
		`null`:     {},
		`{"error":{"code":"TOOL_TIMEOUT","message":"The page did not answer."}}`:                              {Error: timeout},
		`{"error":{"code":"TOOL_TIMEOUT","message":"The page did not answer.","details":{"toolName":"add"}}}`: {Error: timeout.With("toolName", "add")},
	} {
		got, ok := AnswerText(a)
		if got != want || ok != (a.Error == nil) {
			t.Errorf("got %s, %v; want %s", got, ok, want)
		}
	}
	a := thread.ToolAnswer{Error: timeout.With("bad", make(chan int))}
	if got, _ := AnswerText(a); got != `{"error":{"code":"TOOL_TIMEOUT","message":"The page did not answer."}}` {
		t.Errorf("details that cannot be written: %s", got)
	}
}
