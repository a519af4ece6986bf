// Package netdevtest opens the kernel for tests of packages above netdev.
package netdevtest

import (
	"errors"
	"log/slog"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// Open opens the kernel and its interfaces, which the caller closes. A nil logger discards.
func Open(log *slog.Logger) (*sysif.Kernel, *netdev.Devices, error) {
	k, err := sysif.Open("", "", log)
	if err != nil {
		return nil, nil, err
	}
	links, err := netdev.New(k)
	if err != nil {
		return nil, nil, errors.Join(err, k.Close())
	}
	return k, links, nil
}

// New is Open for the time of a test.
func New(t testing.TB) (*sysif.Kernel, *netdev.Devices) {
	t.Helper()
	k, links, err := Open(nil)
	kerneltest.Must(t, err)
	t.Cleanup(func() { kerneltest.Must(t, errors.Join(links.Close(), k.Close())) })
	return k, links
}
