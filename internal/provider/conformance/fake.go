package conformance

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider"
)

// knobsEnv makes the test binary a fake agent.
const knobsEnv = "FAKE_AGENT_KNOBS"

// TurnTokens is what each finished turn of a fake costs.
const TurnTokens = 12

// Knobs are what a fake agent does by itself. What it does in a turn its text
// says, a step a line:
//
//	say ID TEXT     a fragment of the message ID; another ID begins another message
//	tool NAME JSON  calls a frontend tool and says what it answered, as message "tool"
//	fail STATUS     ends the turn with the model server's refusal
//	cut             the model's stream breaks and stays broken
//	wait            waits to be interrupted
//	late            takes an interrupt in, and ends only when the gate opens
//	hang            never ends, whatever it is asked
//	gate            waits until the gate opens
//	die             exits with status 7
//	line TEXT       prints the text as a line of its own; $THREAD and $TURN stand for ids
//	longtool NAME   calls a frontend tool with 17 MiB of arguments
//	longend         ends the turn with a line of 17 MiB
//
// or what [Voice.Habit] knows.
type Knobs struct {
	Flavour    string // codex or claude
	Dir        string // where it keeps its files
	ExitStatus int    // of a program that ends at once; 0 = it does not
	HangGreet  bool
	HangResume bool
	SlowResume bool // codex: a resume is carried out and answered when the gate opens
	Unhelpful  bool // --help does not show the protocol
	IgnoreTerm bool
	Noise      bool // prints lines that are no frames when it starts
	OldUsage   bool // claude: the figures of releases before 2.1.332
	Refuse     string
}

// Override returns how the test binary is started as a fake agent.
func (k Knobs) Override() provider.Override {
	text, err := json.Marshal(k)
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return provider.Override{
		Command: []string{self},
		Env:     map[string]string{knobsEnv: string(text), "GORACE": "atexit_sleep_ms=0"}, // else each fake sleeps when it ends
	}
}

// RunFake is to be called by TestMain first: in a process that was started as a
// fake agent it acts as one and does not return.
func RunFake() {
	text := os.Getenv(knobsEnv)
	switch text {
	case "":
		return
	case orphanKnob:
		select {}
	}
	var k Knobs
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(k.run(os.Args[1:]))
}

func (k Knobs) run(args []string) int {
	switch strings.Join(args, " ") {
	case "--version":
		fmt.Println("fake 1.0")
		return 0
	case "app-server --help", "--help":
		if !k.Unhelpful {
			fmt.Println("app-server --input-format --output-format stream-json --append-system-prompt-file")
		}
		return 0
	}
	f := &fake{Knobs: k, args: args, gate: make(chan struct{}), answers: map[string]chan jsontext.Value{}}
	f.keep("read.jsonl", "")
	f.keep("args", strings.Join(args, "\x00")+"\n")
	_ = os.WriteFile(filepath.Join(k.Dir, "environ"), []byte(strings.Join(os.Environ(), "\n")), 0o600)
	if k.ExitStatus != 0 {
		fmt.Fprintln(os.Stderr, "fake: cannot start, token=abcdefghijklmnop")
		return k.ExitStatus
	}
	if k.IgnoreTerm {
		ignoreTerm()
	}
	if k.Noise {
		f.Print("Update available! run fake upgrade\n\n[1,2]\n{\"half\": \n   \n")
	}
	go f.watchGate()
	if k.Flavour == "claude" {
		return newFakeClaude(f).run()
	}
	return newFakeCodex(f).run()
}

// fake is what the fakes have in common.
type fake struct {
	Knobs
	Voice
	args []string
	gate chan struct{}

	mu      sync.Mutex
	nextID  int
	answers map[string]chan jsontext.Value // by the id of our request
}

// keep appends to one of the rig's files.
func (f *fake) keep(name, text string) {
	file, err := os.OpenFile(filepath.Join(f.Dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = file.WriteString(text)
		_ = file.Close()
	}
}

// lines hands each line of stdin to take until the end of input. take reports
// whether to go on.
func (f *fake) lines(take func(line jsontext.Value) bool) {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		f.keep("read.jsonl", string(line))
		if !take(jsontext.Value(line)) {
			return
		}
	}
}

// watchGate opens the gate when a file says so.
func (f *fake) watchGate() {
	for range time.Tick(5 * time.Millisecond) {
		if _, err := os.Stat(gateFile(f.Dir, os.Getpid())); err == nil {
			close(f.gate)
			return
		}
	}
}

// number returns the next of our ids.
func (f *fake) number() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextID++
	return f.nextID
}

// ask registers who waits for the answer to one of our requests.
func (f *fake) ask(id string) <-chan jsontext.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := make(chan jsontext.Value, 1)
	f.answers[id] = answer
	return answer
}

func (f *fake) answered(id string, answer jsontext.Value) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if waiting := f.answers[id]; waiting != nil {
		delete(f.answers, id)
		waiting <- answer.Clone()
	}
}

// speaker says in one protocol what a turn does.
type speaker interface {
	begin(message string)
	delta(message, text string)
	end(message, whole string)
	call(name, args string) (answer <-chan string)
	fail(status int)
	cut()
	cancelled()
	finish()
	finishTooLong()
	raw(text string)
}

// play does what a turn's text says. Exactly one of the speaker's ends is called,
// unless the turn never ends.
func (f *fake) play(s speaker, text string, cancel <-chan struct{}) {
	message, whole := "", ""
	end := func() {
		if message != "" {
			s.end(message, whole)
		}
		message, whole = "", ""
	}
	say := func(id, text string) {
		if id != message {
			end()
			message = id
			s.begin(id)
		}
		whole += text
		s.delta(id, text)
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\n"), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "say":
			id, words, _ := strings.Cut(rest, " ")
			say(id, words)
		case "tool":
			end()
			tool, args, _ := strings.Cut(rest, " ")
			select {
			case answer := <-s.call(tool, args):
				say("tool", answer)
			case <-cancel:
				s.cancelled()
				return
			}
		case "fail":
			status, _ := strconv.Atoi(rest)
			s.fail(status)
			return
		case "cut":
			s.cut()
			return
		case "wait":
			<-cancel
			s.cancelled()
			return
		case "late":
			<-cancel
			<-f.gate
			s.delta(message, "too late")
			s.cancelled()
			return
		case "hang":
			select {}
		case "gate":
			<-f.gate
		case "die":
			fmt.Fprintln(os.Stderr, "fake: dying, api_key=abcdefghijklmnop")
			os.Exit(7)
		case "line":
			s.raw(rest)
		case "longtool":
			end()
			say("tool", <-s.call(rest, `{"a":"`+TooLong()+`"}`))
		case "longend":
			end()
			s.finishTooLong()
			return
		case "":
		default:
			if !f.Habit(verb) {
				say("echo", line)
			}
		}
	}
	end()
	s.finish()
	f.TurnOver()
}
