package vf

import (
	"testing"

	"sluice/internal/host/bridge"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/kernel/netdevtest"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func newHost(t testing.TB) *Functions {
	t.Helper()
	k, links := netdevtest.New(t)
	return New(k, bridge.New(k, links, false))
}
