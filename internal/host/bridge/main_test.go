package bridge

import (
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/kernel/netdevtest"
	"sluice/internal/host/netdev"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

type testHost struct {
	*Bridges
	*netdev.Devices
}

func newHost(t testing.TB) *testHost { return newHostWith(t, false) }

func newHostWith(t testing.TB, sticky bool) *testHost {
	t.Helper()
	k, links := netdevtest.New(t)
	return &testHost{New(k, links, sticky), links}
}
