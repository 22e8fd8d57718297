//go:build linux

package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pedelec/pedelec-core/internal/leak"
)

// The test binary is also the child that the tests start: a real process with
// the bad habits of real agents. childEnv holds its knobs, in order.
const childEnv = "PROC_TEST_CHILD"

func TestMain(m *testing.M) {
	if knobs := os.Getenv(childEnv); knobs != "" {
		os.Exit(beChild(strings.Split(knobs, ",")))
	}
	leak.VerifyTestMain(m)
}

// beChild does what the knobs say and returns the exit status.
func beChild(knobs []string) int {
	for _, knob := range knobs {
		name, arg, _ := strings.Cut(knob, ":")
		switch name {
		case "ignore-term":
			signal.Ignore(syscall.SIGTERM)
		case "frame":
			fmt.Printf("{\"frame\":%q}\n", arg)
		case "banner":
			fmt.Print("Update available!\n\n\r\n{\"half\":\n")
		case "partial": // a frame without a line feed
			fmt.Print(`{"frame":"unterminated"}`)
		case "oversize":
			n, _ := strconv.Atoi(arg)
			out := bufio.NewWriter(os.Stdout)
			fmt.Fprintf(out, `{"text":"%s"}`+"\n", bytes.Repeat([]byte("x"), n<<20))
			out.Flush()
		case "split": // a code point in two writes
			io.WriteString(os.Stdout, "{\"frame\":\"\xe2\x82")
			io.WriteString(os.Stdout, "\xac\"}\n")
		case "flood": // 10 MB to stderr
			line := bytes.Repeat([]byte("n"), 1023)
			line = append(line, '\n')
			for range 10 << 10 {
				os.Stderr.Write(line)
			}
			io.WriteString(os.Stderr, "the end of the flood ü\n")
		case "group", "session", "hidden": // a descendant that lives on, in the group, outside, or outside without its mark
			startDescendant(name)
		case "environ":
			fmt.Printf("{\"frame\":%q}\n", strings.Join(os.Environ(), "\n"))
		case "echo": // answers each line until EOF
			in := bufio.NewScanner(os.Stdin)
			in.Buffer(nil, 1<<20)
			for in.Scan() {
				fmt.Printf("%s\n", in.Bytes())
			}
		case "count": // reads until EOF, then says how much there was
			n, _ := io.Copy(io.Discard, os.Stdin)
			fmt.Printf("{\"frame\":\"%d\"}\n", n)
		case "close-stdout":
			os.Stdout.Close()
		case "hang":
			for {
				_ = unix.Pause()
			}
		case "exit":
			code, _ := strconv.Atoi(arg)
			return code
		case "daemon": // a daemon that starts a runtime and is killed
			return beDaemon(arg)
		}
	}
	return 0
}

func startDescendant(kind string) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"=ignore-term,hang")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr // holds our pipes
	switch kind {
	case "session":
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	case "hidden":
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Env = []string{childEnv + "=hang"}
	}
	if err := c.Start(); err != nil {
		panic(err)
	}
	fmt.Printf("{\"frame\":\"%d\"}\n", c.Process.Pid)
}
