package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// helperArg as first argument makes the test binary play one of the programs that
// the benchmarks need beside the daemon.
const helperArg = "e2e-helper"

// help runs a helper and returns its exit status.
func help(args []string) int {
	switch args[0] {
	case "agent":
		return benchAgent(args[1:])
	case "echo":
		return echoServer()
	case "lines":
		return stampedLines(args[1:])
	case "sink":
		return sinkServer(args[1])
	case "confined":
		return confined(args[1:])
	case "note-term":
		return noteTerm(args[1:])
	case "overhear":
		return overhear(args[1:])
	}
	fmt.Fprintf(os.Stderr, "there is no helper %q\n", args[0])
	return 2
}

// helperCommand is the command line of a helper.
func helperCommand(args ...string) ([]string, error) {
	exe, err := os.Executable()
	return append([]string{exe, helperArg}, args...), err
}

// floodToken is one delta of a flood. The first byte occurs nowhere else in what the
// daemon sends, so counting it counts deltas, merged or not.
const (
	floodToken = "~234567"
	floodMark  = '~'
)

// A flood is written in batches, and consists of messages of a real length: one
// endless message would have to be kept whole.
const (
	floodBatch   = 100
	floodMessage = 5_000
)

// benchAgent speaks the agent protocol on stdio. Its prompts are "stamp N every
// D of B": N chunks that hold the time at which they were written and B bytes
// more, and "flood N": N chunks of [floodToken] as fast as they can be written.
func benchAgent(args []string) int {
	switch strings.Join(args, " ") {
	case "--version":
		fmt.Println("1.0.0")
		return 0
	case "acp --help":
		fmt.Println("acp: speak the Agent Client Protocol on stdin and stdout")
		return 0
	}
	out := &lockedWriter{w: os.Stdout}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	var turns sync.WaitGroup
	defer turns.Wait()
	for n := 0; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
			Params struct {
				SessionID string `json:"sessionId"`
				Prompt    []struct {
					Text string `json:"text"`
				} `json:"prompt"`
			} `json:"params"`
		}
		if err := json.Unmarshal(line, &m); err != nil || m.ID == nil {
			continue
		}
		result := "{}"
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"close":{},"resume":{}}}}`
		case "session/new":
			result = fmt.Sprintf(`{"sessionId":"bench-%d"}`, n)
		case "session/prompt":
			text := ""
			for _, p := range m.Params.Prompt {
				text = p.Text
			}
			turns.Go(func() { benchTurn(out, string(m.ID), m.Params.SessionID, n, text) })
			continue
		}
		out.writeln(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
	}
}

func benchTurn(out *lockedWriter, id, session string, n int, text string) {
	words := strings.Fields(text[strings.LastIndexByte(text, '\n')+1:])
	message := 0
	chunk := func(text string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + session +
			`","update":{"sessionUpdate":"agent_message_chunk","messageId":"m` + strconv.Itoa(n) + `-` + strconv.Itoa(message) +
			`","content":{"type":"text","text":"` + text + `"}}}}`
	}
	switch {
	case len(words) == 6 && words[0] == "stamp":
		count, _ := strconv.Atoi(words[1])
		every, _ := time.ParseDuration(words[3])
		size, _ := strconv.Atoi(words[5])
		padding := strings.Repeat(".", size)
		tick := time.NewTicker(max(every, time.Microsecond))
		defer tick.Stop()
		for range count {
			<-tick.C
			out.writeln(chunk(strconv.FormatInt(time.Now().UnixNano(), 10) + " " + padding))
		}
	case len(words) == 2 && words[0] == "flood":
		count, _ := strconv.Atoi(words[1])
		for i := range count / floodBatch {
			message = i * floodBatch / floodMessage
			out.write(strings.Repeat(chunk(floodToken)+"\n", floodBatch))
		}
	}
	out.writeln(`{"jsonrpc":"2.0","id":` + id + `,"result":{"stopReason":"end_turn"}}`)
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) writeln(s string) { l.write(s + "\n") }

func (l *lockedWriter) write(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, s) // the daemon is gone; the next read says so
}

// echoServer answers each line with a response of the size of a ping's, after it
// has decoded the request: the least that any server of this protocol does. Its
// address is its first line of output; it leaves when stdin ends.
func echoServer() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go echo(c)
	}
}

func echo(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var e envelope
		if err := json.Unmarshal(line, &e); err != nil {
			return
		}
		answer, err := json.Marshal(struct {
			RequestID string `json:"requestId"`
			OK        bool   `json:"ok"`
			Result    any    `json:"result"`
		}{e.RequestID, true, struct {
			Connected bool     `json:"connected"`
			Version   string   `json:"version"`
			ProcessID int      `json:"processId"`
			Instance  string   `json:"instanceId"`
			Protocol  string   `json:"protocol"`
			Can       []string `json:"capabilities"`
		}{true, "1.2.3", 1234, "0123456789abcdef", "pedelec-core-ipc-v1", []string{"one", "two", "three"}}})
		if err != nil {
			return
		}
		if _, err := c.Write(append(answer, '\n')); err != nil {
			return
		}
	}
}

// stampedLines writes lines that hold the time at which they were written:
// arguments are their number and the pause between them.
func stampedLines(args []string) int {
	count, _ := strconv.Atoi(args[0])
	every, _ := time.ParseDuration(args[1])
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range count {
		<-tick.C
		if _, err := fmt.Printf(`{"text":"%d "}`+"\n", time.Now().UnixNano()); err != nil {
			return 1
		}
	}
	return 0
}
