package vf

import (
	"errors"
	"testing"

	"sluice/internal/host/bridge"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func newHost(t testing.TB) *Functions {
	t.Helper()
	k, err := sysif.Open("", "", nil)
	kerneltest.Must(t, err)
	links, err := netdev.New(k)
	kerneltest.Must(t, err)
	t.Cleanup(func() { kerneltest.Must(t, errors.Join(links.Close(), k.Close())) })
	return New(k, bridge.New(k, links, false))
}
