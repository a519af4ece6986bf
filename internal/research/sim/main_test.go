package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often: a simulated host is small, so that the default collects many times a second.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(1000)
	}
	os.Exit(m.Run())
}
