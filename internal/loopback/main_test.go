package loopback

import (
	"os"
	"testing"
	"time"

	"github.com/pedelec/pedelec-core/internal/leak"
)

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if addr := os.Getenv(dialEnv); addr != "" {
		os.Exit(beForeignClient(addr))
	}
	leak.VerifyTestMain(m)
}
