package virtualpf

import (
	"context"

	"sluice/internal/model"
)

// Switch holds ports of the embedded switch: *kernel.Host. Everything stays when the process ends.
type Switch interface {
	// SetSwitchPort makes the tap a port that is held to these rules, or changes it in place. It is
	// idempotent, and returns what is true then. While it changes no frame passes that neither the old nor the new rules let through.
	SetSwitchPort(ctx context.Context, p model.SwitchPort) (model.SwitchPortState, error)
	// RemoveSwitchPort takes all of it off the tap, or what is left where the tap has gone.
	RemoveSwitchPort(ctx context.Context, tap string) error
	// SwitchPorts lists what stands, whichever process made it, sorted by tap.
	SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error)
}

// Domains has the devices in libvirt: *libvirt.Conn.
type Domains interface {
	// DefineVPF adds the virtual PF's devices to the VM's persistent XML and leaves the rest unchanged. The VM, p.VM or, if that
	// is empty, the one named p.VMName, must be shut off. Both are filled in, and so are MACs that are zero. It succeeds if the
	// devices exist already exactly as p wants them, so a definition that was interrupted can be repeated.
	DefineVPF(ctx context.Context, p *model.VirtualPF) error
	// UndefineVPF removes them from a VM that is shut off. It is not an error if there are none, or no such VM.
	UndefineVPF(ctx context.Context, vm model.VMID, name string) error
	// CheckVPF reports where the persistent XML differs from the definition and, if the VM runs, which devices QEMU lacks.
	CheckVPF(ctx context.Context, p *model.VirtualPF) ([]model.Problem, error)
	// SetLink gives a function a carrier or takes it away, in the running VM alone: the persistent XML has it down. It is
	// idempotent; model.ErrGone: the VM does not run, or has no such function.
	SetLink(ctx context.Context, vm model.VMID, alias string, up bool) error
	// MACs maps each MAC in the definition of any VM, running or not, to its owner.
	MACs(ctx context.Context) (map[model.MAC]string, error)
	// ChannelSocket is the path of the host's end of the VM's channel, "" if the VM has none open.
	ChannelSocket(ctx context.Context, vm model.VMID) (string, error)
}

// VDPA makes the devices that functions have instead of taps with backend vdpa: *kernel.Host. They are named by model.VDPAName,
// survive the process and are lost when the host reboots.
type VDPA interface {
	// CreateVDPA makes a device unless it is there as wanted, and leads model.VDPAPath to it. It is idempotent.
	CreateVDPA(ctx context.Context, want model.VDPAWant) (model.VDPADevice, error)
	// DeleteVDPA removes a device of ours that is not in use. It is not an error if none exists.
	DeleteVDPA(ctx context.Context, name string) error
	// VDPADevices lists the network devices on the vDPA bus, whoever made them, sorted by name; none where the kernel has no vDPA.
	VDPADevices(ctx context.Context) ([]model.VDPADevice, error)
}
