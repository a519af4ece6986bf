package kerneltest

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/model"
)

// Lacks logs what the running kernel does not support. The lab's kernel, Debian's, must support everything: there
// SLUICE_TEST_WHOLE_KERNEL=1 makes it a failure.
func Lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("SLUICE_TEST_WHOLE_KERNEL") == "1" {
		t.Fatal("this kernel lacks " + what)
	}
	t.Log("this kernel lacks " + what)
}

// NoLeaks fails the test if it leaves goroutines behind.
func NoLeaks(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
}

// Soon returns a context for what should be immediate; only failing tests wait for its timeout.
func Soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Must fails the test immediately on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// MAC parses a valid address.
func MAC(s string) model.MAC {
	m, err := model.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

// Addresses of tests.
var (
	Guest     = MAC("52:54:00:00:00:01")
	Other     = MAC("52:54:00:00:00:02")
	Stray     = MAC("52:54:00:00:00:99") // at no port
	Broadcast = MAC("ff:ff:ff:ff:ff:ff")
	NoMAC     = model.MAC{}
)

// WaitFor waits for a condition that becomes true without further action.
func WaitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for", what)
		}
	}
}
