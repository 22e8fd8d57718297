package leak

import (
	"os"
	"runtime"
	"testing"
)

func TestMain(m *testing.M) { VerifyTestMain(m) }

// tests are a run of tests in a test.
type tests func() int

func (t tests) Run() int { return t() }

func TestAFileThatIsLeftOpenIsFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not list open files")
	}
	var left *os.File
	status := watched{tests(func() (code int) {
		var err error
		if left, err = os.Open(os.DevNull); err != nil {
			t.Error(err)
		}
		return 0
	})}.Run()
	if status != 1 {
		t.Errorf("status %d with a file left open", status)
	}
	left.Close()
	closed := watched{tests(func() int { return 0 })}
	if status := closed.Run(); status != 0 {
		t.Errorf("status %d with nothing left", status)
	}
	if status := (watched{tests(func() int { return 3 })}).Run(); status != 3 {
		t.Errorf("status %d of tests that failed with 3", status)
	}
}

func TestMoreCountsEachName(t *testing.T) {
	got := more([]string{"a", "b", "b", "c"}, []string{"b", "a", "d"})
	if len(got) != 2 || got[0] != "b" || got[1] != "c" {
		t.Errorf("%q", got)
	}
}
