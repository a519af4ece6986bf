package kernel

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

func TestMain(m *testing.M) {
	if os.Getenv(openerEnv) != "" {
		openAndWait()
	}
	if os.Getenv(limiterEnv) != "" {
		limitAndWait()
	}
	if os.Getenv(switcherEnv) != "" {
		switchForever()
	}
	kerneltest.Main(m)
}

// lacks notes what the running kernel cannot do. On the lab's, which is Debian's, nothing may
// be lacking: there SLUICE_TEST_WHOLE_KERNEL=1 makes it a failure.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("SLUICE_TEST_WHOLE_KERNEL") == "1" {
		t.Fatal("this kernel lacks " + what)
	}
	t.Log("this kernel lacks " + what)
}

// newHost opens the kernel of the test's network namespace, with a BPF file system of its
// own.
func newHost(t testing.TB) *Host {
	t.Helper()
	return newHostWith(t, Options{BPFFS: kerneltest.BPFFS(t)})
}

func newHostWith(t testing.TB, o Options) *Host {
	t.Helper()
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return h
}

// noLeaks fails the test if it leaves goroutines behind.
func noLeaks(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
}

// soon is a context for what should take no time; only failing tests wait that long.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mac(s string) model.MAC {
	m, err := model.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

var (
	guest  = mac("52:54:00:00:00:01")
	other  = mac("52:54:00:00:00:02")
	stray  = mac("52:54:00:00:00:99") // at no port
	bcast  = mac("ff:ff:ff:ff:ff:ff")
	zeroes = model.MAC{}
)
