package vf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// BenchmarkInGuest checks 100 VFs with three vectors each, in files laid out as in sysfs.
func BenchmarkInGuest(b *testing.B) {
	root := b.TempDir()
	put := func(name, text string) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	var addrs []model.PCIAddress
	for i := range 100 {
		addr := model.PCIAddress(fmt.Sprintf("0000:%02x:10.%d", i/8, i%8))
		addrs = append(addrs, addr)
		for k := range 3 {
			irq := 3*i + k
			put(fmt.Sprintf("bus/pci/devices/%s/msi_irqs/%d", addr, irq), "msix\n")
			put(fmt.Sprintf("kernel/irq/%d/actions", irq), fmt.Sprintf("vfio-msix[%d](%s)\n", k, addr))
			put(fmt.Sprintf("kernel/irq/%d/per_cpu_count", irq), "1,2,3,4\n")
		}
	}
	h := &Functions{k: &sysif.Kernel{Sys: sysif.NewTree(root, "")}}
	b.Run("DriverOpen", func(b *testing.B) {
		for b.Loop() {
			for _, a := range addrs {
				if open, err := h.DriverOpen(b.Context(), a); err != nil || open != model.Yes {
					b.Fatal(open, err)
				}
			}
		}
	})
	b.Run("Interrupts", func(b *testing.B) {
		for b.Loop() {
			for _, a := range addrs {
				if n, err := h.Interrupts(b.Context(), a); err != nil || n != 30 {
					b.Fatal(n, err)
				}
			}
		}
	})
}
