package netdev

import (
	"errors"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

type testHost = Devices

func newHost(t testing.TB) *Devices {
	t.Helper()
	k, err := sysif.Open("", "", nil)
	kerneltest.Must(t, err)
	h, err := New(k)
	kerneltest.Must(t, err)
	t.Cleanup(func() { kerneltest.Must(t, errors.Join(h.Close(), k.Close())) })
	return h
}
