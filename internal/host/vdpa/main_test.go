package vdpa

import (
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func newHost(t testing.TB) *Bus {
	t.Helper()
	k, err := sysif.Open("", "", nil)
	kerneltest.Must(t, err)
	t.Cleanup(func() { kerneltest.Must(t, k.Close()) })
	return New(k, "")
}
