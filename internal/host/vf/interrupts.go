package vf

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Interrupts returns how many interrupts of the VF the host has handled for its guest since the guest's driver opened the VF,
// over all vectors. The count restarts when the driver opens the VF again. It stays 0 where the IOMMU posts interrupts directly
// to the guest.
func (h *Functions) Interrupts(ctx context.Context, addr model.PCIAddress) (uint64, error) {
	const op = "count the interrupts of"
	if err := ctx.Err(); err != nil {
		return 0, sysif.Fail(op, string(addr), err)
	}
	dev := sysif.PCIDir(addr)
	if !h.k.Sys.Exists(dev) {
		return 0, sysif.Fail(op, string(addr), fmt.Errorf("%w: no such PCI device", model.ErrGone))
	}
	var sum uint64
	for _, irq := range h.k.Sys.List(dev + "/msi_irqs") {
		// An interrupt freed meanwhile has no file.
		text, _ := h.k.Sys.Text(path.Join("kernel/irq", irq, "per_cpu_count"))
		n, err := perCPU(text)
		if err != nil {
			return 0, sysif.Fail(op, string(addr), fmt.Errorf("/sys/kernel/irq/%s/per_cpu_count: %w", irq, err))
		}
		sum += n
	}
	return sum, nil
}

// perCPU adds up a comma-separated list of counts, one per CPU.
func perCPU(text string) (sum uint64, err error) {
	if text == "" {
		return 0, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
