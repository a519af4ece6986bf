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
	// DefineVPF adds the virtual PF's devices to the VM's persistent XML, and leaves the rest as it was. The VM must be shut off.
	// The VM is p.VM or, where that is empty, the one named p.VMName. It fills in both and the MACs that are zero. One that is there
	// already just as p wants it is a success: so a definition that was cut short can be repeated.
	DefineVPF(ctx context.Context, p *model.VirtualPF) error
	// UndefineVPF takes them out again, of a VM that is shut off; that there are none, or no such VM, is no error.
	UndefineVPF(ctx context.Context, vm model.VMID, name string) error
	// CheckVPF says what of it is not in the persistent XML as it was defined, and, where the VM runs, what QEMU did not make of it.
	CheckVPF(ctx context.Context, p *model.VirtualPF) ([]model.Problem, error)
	// SetLink gives a function a carrier or takes it away, in the running VM alone: the persistent XML has it down. It is
	// idempotent; model.ErrGone: the VM does not run, or has no such function.
	SetLink(ctx context.Context, vm model.VMID, alias string, up bool) error
	// MACs says whose each MAC is in the definition of a VM, whether it runs or not.
	MACs(ctx context.Context) (map[model.MAC]string, error)
	// ChannelSocket is the host's end of the VM's channel, "" where it has none that is running.
	ChannelSocket(ctx context.Context, vm model.VMID) (string, error)
}

// VDPA makes what backend vdpa gives functions in place of taps: *kernel.Host. Devices are named by model.VDPAName; they
// go with the host's power, and stay when the process ends.
type VDPA interface {
	// CreateVDPA makes a device unless it is there as wanted, and leads model.VDPAPath to it. It is idempotent.
	CreateVDPA(ctx context.Context, want model.VDPAWant) (model.VDPADevice, error)
	// DeleteVDPA removes a device of ours that is not in use; that there is none is no error.
	DeleteVDPA(ctx context.Context, name string) error
	// VDPADevices lists the network devices on the vDPA bus, whoever made them, sorted by name; none where the kernel has no vDPA.
	VDPADevices(ctx context.Context) ([]model.VDPADevice, error)
}
