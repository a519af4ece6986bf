package tap

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/htb"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/kernel/netdevtest"
	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

func TestMain(m *testing.M) {
	if os.Getenv(limiterEnv) != "" {
		limitAndWait()
	}
	if os.Getenv(switcherEnv) != "" {
		switchForever()
	}
	kerneltest.Main(m)
}

type testHost struct {
	*Taps
	*mirror.Mirroring
	*htb.Trees
	*bridge.Bridges
	*netdev.Devices
	k *sysif.Kernel
}

// options are the mount point for pins and the lease of rates.
type options struct {
	BPFFS  string
	Lease  time.Duration
	Logger *slog.Logger
}

func openHost(o options) (*testHost, error) {
	mirrors, err := bpf.NewPins(o.BPFFS, "", "mirrors")
	if err != nil {
		return nil, err
	}
	pins, err := bpf.NewPins(o.BPFFS, "", "taps")
	if err != nil {
		return nil, err
	}
	k, links, err := netdevtest.Open(o.Logger)
	if err != nil {
		return nil, err
	}
	bridges := bridge.New(k, links, false)
	taps := New(k, links, bridges, pins, cmp.Or(o.Lease, model.LimitLease))
	return &testHost{taps, mirror.New(k, links, bridges, mirrors), htb.New(k, links), bridges, links, k}, nil
}

func (h *testHost) Close() error {
	return errors.Join(h.Taps.Close(), h.Mirroring.Close(), h.Devices.Close(), h.k.Close())
}

// newHost opens the taps of the test's network namespace with a private BPF file system.
func newHost(t testing.TB) *testHost {
	t.Helper()
	return newHostWith(t, options{BPFFS: kerneltest.BPFFS(t)})
}

func newHostWith(t testing.TB, o options) *testHost {
	t.Helper()
	h, err := openHost(o)
	kerneltest.Must(t, err)
	t.Cleanup(func() { kerneltest.Must(t, h.Close()) })
	return h
}

var dual = mirror.DualPath{MAC: kerneltest.Guest, Tap: "tap0", PF: "pf0"}

func openQuietly(t *testing.T, h *testHost, d mirror.DualPath) {
	t.Helper()
	note, err := h.OpenDualPath(kerneltest.Soon(t), d)
	if err != nil || note != "" {
		t.Fatalf("open dual path: note %q, error %v", note, err)
	}
}
