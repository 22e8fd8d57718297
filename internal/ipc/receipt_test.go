package ipc

import "testing"

func TestAnAnswerHasArrivedOnceTheClientWentOnOrClosed(t *testing.T) {
	call := `{"requestId":"c","type":"tool_call","payload":{"threadId":"t","toolName":"paint","args":{ "a" : 1 }}}`
	tests := []struct {
		name string
		then func(p *peer)
		want bool
	}{
		{"the client stays silent", func(*peer) {}, false},
		{"the client closes", func(p *peer) { p.conn.Close() }, true},
		{"the client goes on", func(p *peer) { p.send(`{"requestId":"n","type":"ping"}`); p.line() }, true},
		{"the client is killed", func(p *peer) { _ = p.conn.SetLinger(0); p.conn.Close() }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			p := r.dial(t)
			p.send(call)
			if got := p.line(); got != `{"requestId":"c","ok":true,"result":{"a":1}}` {
				t.Fatalf("answer %s", got)
			}
			tt.then(p)
			// Another connection asks, as an agent that tries again would.
			again := r.dial(t)
			again.send(`{"requestId":"p","type":"ping"}`)
			again.line()
			r.threads.mu.Lock()
			receipt := r.threads.receipts[0]
			r.threads.mu.Unlock()
			if got := receipt.Delivered(); got != tt.want {
				t.Errorf("Delivered = %v, want %v", got, tt.want)
			}
		})
	}
}
