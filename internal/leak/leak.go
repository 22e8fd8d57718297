package leak

import (
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/goleak"
)

// closingLimit is how long a file may take to be closed after the last test: what a
// peer has to notice first, such as an end of a connection, comes a little later.
const closingLimit = 2 * time.Second

// VerifyTestMain runs the tests of a package and exits with their status, or with 1
// when they leave something.
func VerifyTestMain(m goleak.TestingM) { goleak.VerifyTestMain(watched{m}) }

// watched looks at the open files before and after the tests.
type watched struct{ tests goleak.TestingM }

func (w watched) Run() int {
	before := openFiles()
	code := w.tests.Run()
	if code != 0 {
		return code
	}
	tick := time.NewTicker(closingLimit / 100)
	defer tick.Stop()
	deadline := time.Now().Add(closingLimit)
	for {
		left := more(openFiles(), before)
		if len(left) == 0 {
			return code
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "leak: %d files are left open: %s\n", len(left), strings.Join(left, ", "))
			return 1
		}
		<-tick.C
	}
}

// more returns the entries of after that are not among those of before.
func more(after, before []string) (left []string) {
	count := map[string]int{}
	for _, name := range before {
		count[name]++
	}
	for _, name := range after {
		if count[name]--; count[name] < 0 {
			left = append(left, name)
		}
	}
	return left
}
