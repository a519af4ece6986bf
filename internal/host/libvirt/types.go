package libvirt

import (
	"log/slog"
	"time"

	"sluice/internal/model"
)

// Options says where libvirt is and how patient to be. The zero value is usable.
type Options struct {
	URI    string       // "" means qemu:///system
	Logger *slog.Logger // nil discards

	Keepalive  time.Duration // a silent libvirtd is given up after about three times this; 0: 5 s
	Resync     time.Duration // a full re-read of all domains at least this often; 0: 1 min
	Watch      time.Duration // how often jobs (migrations) are looked for, besides before every change; links of virtual PFs' functions five times as often; 0: 20 s
	MinBackoff time.Duration // first pause before reconnecting; 0: 200 ms
	MaxBackoff time.Duration // longest pause before reconnecting; 0: 10 s
	CallLimit  time.Duration // longest wait for a call Conn makes on its own account; 0: 10 s

	NoMetadata bool // SLAs in the domains' metadata do not count
}

// Domain is an active domain as its live XML and events show it. Of model.VM it
// fills ID, Name, State, Started, Ready, NUMANode, VCPUs, free ports, SLAs and the virtio NICs; of a
// NIC Alias, MAC, Tap, Network, VLAN, Failover (teaming only) and FreePort; of a function of a virtual PF
// VirtualPF, Function and Carrier too (one of backend vdpa has no Tap and no Network). What the
// kernel knows (ifindex, link state, FDB, traffic) and who owns a VF is left out.
type Domain struct {
	model.VM
	Hostdevs []Hostdev

	aliases  []string             // of all devices
	macs     map[model.MAC]string // of all interfaces, with their aliases
	metadata error                // why its metadata could not be read
}

// Hostdev is a PCI device of the host given to a domain, as plain <hostdev> or as
// <interface type='hostdev'>.
type Hostdev struct {
	Alias             string
	Address           model.PCIAddress
	Managed           bool      // libvirt binds and unbinds the driver itself
	Interface         bool      // it is an <interface type='hostdev'>
	MAC               model.MAC // only of an Interface
	TeamingPersistent string    // alias of the virtio NIC it stands in for, "" for none
}

// HostdevSpec is a VF to be attached as plain hostdev, managed='no': its driver,
// MAC and VLAN are the caller's business.
type HostdevSpec struct {
	Alias             string // starts with "ua-"; libvirt refuses others
	Address           model.PCIAddress
	TeamingPersistent string // alias of the virtio NIC, "" for no teaming (a bond in the guest)
}

// Stat is what Stats says of a domain.
type Stat struct {
	CPUTime  time.Duration // host CPU time used since the domain started, guest and QEMU together
	CPUKnown bool
	State    model.VMState // without migration: Domains knows of that
}
