package mirror

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/kernel/netdevtest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

func TestMain(m *testing.M) {
	if os.Getenv(openerEnv) != "" {
		openAndWait()
	}
	kerneltest.Main(m)
}

type testHost struct {
	*Mirroring
	*bridge.Bridges
	*netdev.Devices
	k *sysif.Kernel
}

// options are the mount point and owner of pins.
type options struct {
	BPFFS, Owner string
	Logger       *slog.Logger
}

func openHost(o options) (*testHost, error) {
	pins, err := bpf.NewPins(o.BPFFS, o.Owner, "mirrors")
	if err != nil {
		return nil, err
	}
	k, links, err := netdevtest.Open(o.Logger)
	if err != nil {
		return nil, err
	}
	bridges := bridge.New(k, links, false)
	return &testHost{New(k, links, bridges, pins), bridges, links, k}, nil
}

func (h *testHost) Close() error {
	return errors.Join(h.Mirroring.Close(), h.Devices.Close(), h.k.Close())
}

// newHost opens mirrors with a private BPF file system.
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

// pinnedTo checks that the guest's address is the only pinned one, and pinned to that port.
func pinnedTo(t *testing.T, h *testHost, want string) {
	t.Helper()
	entries, err := h.FDBEntries(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	if len(entries) != 1 || entries[0].MAC != kerneltest.Guest || entries[0].Port != want {
		t.Errorf("bridge entries %+v, want the guest's at %s alone", entries, want)
	}
}
