package htb

import (
	"testing"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/kernel/netdevtest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

type testHost struct {
	*Trees
	*tap.Taps
	*netdev.Devices
}

func newHost(t testing.TB) *testHost {
	t.Helper()
	pins, err := bpf.NewPins(kerneltest.BPFFS(t), "", "taps")
	kerneltest.Must(t, err)
	k, links := netdevtest.New(t)
	taps := tap.New(k, links, bridge.New(k, links, false), pins, model.LimitLease)
	t.Cleanup(func() { kerneltest.Must(t, taps.Close()) })
	return &testHost{New(k, links), taps, links}
}
