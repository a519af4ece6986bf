package uplink

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// NIC is the part of a Writer that depends on the NIC and not on the switch: the PF's filters, and frames that it sends to the wire.
type NIC struct{ Kernel NICKernel }

// NICKernel is what a NIC uses of the kernel.
type NICKernel interface {
	AddSelf(ctx context.Context, pf string, mac model.MAC) error
	DelSelf(ctx context.Context, pf string, mac model.MAC) error
	Announce(ctx context.Context, mac model.MAC, vlan int, via string) error
}

// FromNIC implements Writer with a filter of the PF, which a PF with representors does not need. It is not an error if the driver supports
// no filters or has none free: the VM works without it, except that VFs cannot reach its virtio NIC.
func (n NIC) FromNIC(ctx context.Context, p *model.PathStep) (note string, err error) {
	if p.Representor {
		return "", nil
	}
	err = n.Kernel.AddSelf(ctx, p.PF, p.MAC)
	for _, refusal := range []error{unix.ENOMEM, unix.ENOSPC, unix.EOPNOTSUPP} {
		if errors.Is(err, refusal) {
			return "VFs cannot reach this VM's virtio NIC: " + err.Error(), nil
		}
	}
	return "", err
}

// NotFromNIC implements Writer.
func (n NIC) NotFromNIC(ctx context.Context, p *model.PathStep) error {
	if p.Representor {
		return nil
	}
	return n.Kernel.DelSelf(ctx, p.PF, p.MAC)
}

// Announce implements Writer.
func (n NIC) Announce(ctx context.Context, p *model.PathStep) error {
	return n.Kernel.Announce(ctx, p.MAC, p.VLAN, p.PF)
}
