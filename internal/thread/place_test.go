package thread

import "testing"

func TestPlacedTellsWhoeverAskedAndNobodyElse(t *testing.T) {
	Placed(t.Context()) // nobody asked
	told := 0
	ctx := WithPlace(t.Context(), func() { told++ })
	Placed(ctx)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
