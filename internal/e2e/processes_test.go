package e2e

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// noteTerm writes down when it is told to leave, and stays.
func noteTerm(args []string) int {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	if err := os.WriteFile(args[0]+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-told
	at := strconv.FormatInt(time.Now().UnixNano(), 10)
	if err := os.WriteFile(args[0]+".tmp", []byte(at), 0o600); err != nil {
		return 1
	}
	if err := os.Rename(args[0]+".tmp", args[0]); err != nil {
		return 1
	}
	select {}
}
