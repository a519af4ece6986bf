package htb

import (
	"errors"
	"testing"

	"sluice/internal/host/bpf"
	"sluice/internal/host/bridge"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
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
	k, err := sysif.Open("", "", nil)
	kerneltest.Must(t, err)
	links, err := netdev.New(k)
	kerneltest.Must(t, err)
	taps := tap.New(k, links, bridge.New(k, links, false), pins, model.LimitLease)
	t.Cleanup(func() { kerneltest.Must(t, errors.Join(taps.Close(), links.Close(), k.Close())) })
	return &testHost{New(k, links), taps, links}
}
