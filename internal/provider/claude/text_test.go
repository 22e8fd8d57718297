package claude

import (
	"slices"
	"strings"
	"testing"
)

func TestAnAnswerIsHeldUntilItIsCompleteButNotWithoutBound(t *testing.T) {
	var a answerText
	a.begin("a")
	if got := a.add("other", "x"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("an answer that is not streamed: %q", got)
	}
	half := strings.Repeat("x", maxHeld/2)
	if got := append(a.add("a", half), a.add("a", half)...); got != nil {
		t.Error("a part of the answer counts already")
	}
	if got := a.add("a", "y"); !slices.Equal(got, []string{half, half, "y"}) {
		t.Errorf("%d blocks count", len(got))
	}
	if got := a.add("a", "z"); got != nil {
		t.Errorf("after that: %q", got)
	}
	if got := a.end(); !slices.Equal(got, []string{"z"}) {
		t.Errorf("at the end: %q", got)
	}
	a.begin("b")
	a.add("b", "void")
	a.begin("c")
	if got := a.end(); got != nil {
		t.Errorf("after a retry: %q", got)
	}
}
