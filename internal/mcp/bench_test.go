package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkCall is a tool call from an agent's client to the thread and back; the
// baseline is a plain handler behind the same client and listener.
func BenchmarkCall(b *testing.B) {
	b.Run("tool", func(b *testing.B) {
		s := newStand(b, nil)
		session := s.client(s.reach("t1"))
		params := &sdk.CallToolParams{Name: "paint", Arguments: map[string]any{"color": "red"}}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := session.CallTool(b.Context(), params); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("baseline-http", func(b *testing.B) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"color":"red"}`)) }))
		defer server.Close()
		b.ReportAllocs()
		for b.Loop() {
			answer, err := server.Client().Get(server.URL)
			if err != nil {
				b.Fatal(err)
			}
			answer.Body.Close()
		}
	})
}
