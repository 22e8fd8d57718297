package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// maxDelta is the longest text of one delta, in bytes.
const maxDelta = 64 << 10

// TestLongAnswersComeWholeInParts sends answers over the limit of a line: deltas
// are cut small, and the parts of the message make up the whole.
func TestLongAnswersComeWholeInParts(t *testing.T) {
	for _, size := range []int{890_000, 950_000, 2_000_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			c := start(t, newHome(t)).dial()
			id := newThread(t, c)
			if err := c.call("subscribe_thread", object{"threadId": id}, nil); err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("stream 1 of %d", size)
			if err := c.call("send_text", object{"threadId": id, "operationId": "op", "message": text}, nil); err != nil {
				t.Fatal(err)
			}
			events, err := c.until(patience, func(e event) bool { return e.Type == "operation_completed" })
			if err != nil {
				t.Fatal(err)
			}
			if last := events[len(events)-1]; !last.Success {
				t.Fatalf("the turn ended with %s", last.raw)
			}
			checkParts(t, events, size)
		})
	}
}

func checkParts(t *testing.T, events []event, size int) {
	t.Helper()
	var whole strings.Builder
	parts := 0
	for _, e := range events {
		switch e.Type {
		case "assistant_delta":
			if len(e.Text) > maxDelta {
				t.Errorf("a delta has %d bytes", len(e.Text))
			}
		case "assistant_message":
			var p struct {
				Part *struct {
					Index int `json:"index"`
					Count int `json:"count"`
				} `json:"part"`
			}
			if err := json.Unmarshal(e.raw, &p); err != nil {
				t.Fatal(err)
			}
			if p.Part != nil && p.Part.Index != parts {
				t.Errorf("part %d comes as number %d", p.Part.Index, parts)
			}
			if p.Part == nil && size > maxMessage {
				t.Errorf("a message of %d bytes comes in one piece", len(e.Text))
			}
			parts++
			whole.WriteString(e.Text)
		}
	}
	if whole.Len() != size || strings.Trim(whole.String(), ".") != "1 " {
		t.Errorf("%d bytes in %d parts, want %d", whole.Len(), parts, size)
	}
}

// maxMessage is the longest message that comes in one event, in bytes.
const maxMessage = 900 << 10
