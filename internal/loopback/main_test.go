package loopback

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if addr := os.Getenv(dialEnv); addr != "" {
		os.Exit(beForeignClient(addr))
	}
	goleak.VerifyTestMain(m)
}
