package sluiceguest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/host/kernel/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

const patience = 30 * time.Second

// noLeaks fails the test if it leaves goroutines behind. Call it first.
func noLeaks(t *testing.T) { t.Cleanup(func() { goleak.VerifyNone(t) }) }

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until so returns true.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
