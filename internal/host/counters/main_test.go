package counters

import (
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/kernel/netdevtest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

type testHost struct {
	*Counting
	*netdev.Devices
	k *sysif.Kernel
}

func newHost(t testing.TB) *testHost {
	t.Helper()
	k, links := netdevtest.New(t)
	return &testHost{New(k), links, k}
}
