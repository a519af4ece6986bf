package virtualpf

import (
	"context"

	"sluice/internal/model"
)

// Switch manages the ports of the embedded switch; uplink.FunctionPorts implements it. Ports persist after the process ends.
type Switch interface {
	// SetSwitchPort makes the tap a port with these rules, or changes the port in place. It is idempotent and returns the resulting
	// state. During a change it passes only frames that the old or the new rules permit.
	SetSwitchPort(ctx context.Context, p model.SwitchPort) (model.SwitchPortState, error)
	// RemoveSwitchPort removes the port's configuration from the tap, or what is left of it if the tap is gone.
	RemoveSwitchPort(ctx context.Context, tap string) error
}

// Domains manages the devices in libvirt; *libvirt.Conn implements it.
type Domains interface {
	// DefineVPF adds the virtual PF's devices to the VM's persistent XML and leaves the rest unchanged. The VM (p.VM or, if that is
	// empty, the one named p.VMName) must be shut off. DefineVPF fills in both fields and generates MACs that are zero. It succeeds if
	// the devices already exist exactly as p wants them, so that an interrupted definition can be repeated.
	DefineVPF(ctx context.Context, p *model.VirtualPF) error
	// UndefineVPF removes the devices from a VM that is shut off. It is not an error if the devices or the VM do not exist.
	UndefineVPF(ctx context.Context, vm model.VMID, name string) error
	// CheckVPF reports where the persistent XML differs from the definition and, if the VM runs, which devices QEMU lacks.
	CheckVPF(ctx context.Context, p *model.VirtualPF) ([]model.Problem, error)
	// SetLink gives a function a carrier or takes it away, in the running VM only: in the persistent XML the link is down. It is
	// idempotent. It returns model.ErrGone if the VM does not run or has no such function.
	SetLink(ctx context.Context, vm model.VMID, alias string, up bool) error
	// MACs maps each MAC in the definition of any VM, running or not, to its owner.
	MACs(ctx context.Context) (map[model.MAC]string, error)
	// ChannelSocket returns the path of the host's end of the VM's channel, "" if the VM has none open.
	ChannelSocket(ctx context.Context, vm model.VMID) (string, error)
}

// VDPA manages the devices that replace taps with backend vdpa; *kernel.Host implements it. Devices are named by model.VDPAName. They
// persist after the process ends and are lost when the host reboots.
type VDPA interface {
	// CreateVDPA creates a device unless it exists as wanted, and makes model.VDPAPath refer to it. It is idempotent.
	CreateVDPA(ctx context.Context, want model.VDPAWant) (model.VDPADevice, error)
	// DeleteVDPA removes a device of Sluice's that is not in use. It is not an error if the device does not exist.
	DeleteVDPA(ctx context.Context, name string) error
}
