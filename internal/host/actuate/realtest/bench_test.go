package realtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/observe"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

// The cost of a Snapshot of a hundred VMs with the real kernel: each second, and when the inventory is read again. It does not include
// libvirt's share.
func BenchmarkSnapshot(b *testing.B) {
	const machines = 100
	k, err := kernel.New(kernel.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close() })
	kerneltest.NewBridge(b, "br0")
	d := &domains{}
	for i := range machines {
		nic := model.NIC{Alias: "ua-net0", MAC: model.MAC{0x52, 0x54, 0, 0, 1, byte(i)}, Tap: fmt.Sprint("tap", i)}
		kerneltest.NewPort(b, nic.Tap, "br0")
		if err := k.PinFDB(context.Background(), nic.MAC, 0, nic.Tap); err != nil {
			b.Fatal(err)
		}
		id := model.VMID(fmt.Sprintf("id-%03d", i))
		d.all = append(d.all, libvirt.Domain{VM: model.VM{ID: id, State: model.VMRunning, NICs: []model.NIC{nic}}})
	}
	for name, recheck := range map[string]time.Duration{"tick": time.Hour, "refresh": time.Nanosecond} {
		b.Run(fmt.Sprintf("%s/%d", name, machines), func(b *testing.B) {
			s := observe.New(&host{Host: k}, uplink.Set{bridge.New(k)}, d, nil, observe.Options{Recheck: recheck})
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Snapshot(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
