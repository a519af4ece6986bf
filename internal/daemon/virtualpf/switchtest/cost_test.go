package switchtest

import (
	"fmt"
	"testing"

	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// BenchmarkLook measures reading a host's switch ports, which the controller does every second.
func BenchmarkLook(b *testing.B) {
	k, err := kernel.New(kernel.Options{BPFFS: kerneltest.BPFFS(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	kerneltest.NewBridge(b, "br0")
	const taps = 100
	for i := range taps {
		tap := fmt.Sprint("vnet", i)
		kerneltest.NewPort(b, tap, "br0")
		rule := model.SwitchRule{MACs: []model.MAC{{0x52, 0x54, 0, 0, 1, byte(i)}}}
		if _, err := k.SetSwitchPort(b.Context(), model.SwitchPort{Tap: tap, Bridge: "br0", Rules: []model.SwitchRule{rule}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if ports, err := k.SwitchPorts(b.Context()); err != nil || len(ports) != taps {
			b.Fatal(len(ports), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/taps, "µs/tap")
}
