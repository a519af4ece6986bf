package bridge

import (
	"errors"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

type testHost struct {
	*Bridges
	*netdev.Devices
}

func newHost(t testing.TB) *testHost { return newHostWith(t, false) }

func newHostWith(t testing.TB, sticky bool) *testHost {
	t.Helper()
	k, err := sysif.Open("", "", nil)
	kerneltest.Must(t, err)
	links, err := netdev.New(k)
	kerneltest.Must(t, err)
	t.Cleanup(func() { kerneltest.Must(t, errors.Join(links.Close(), k.Close())) })
	return &testHost{New(k, links, sticky), links}
}
