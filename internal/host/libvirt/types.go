package libvirt

import (
	"context"
	"log/slog"
	"time"

	"sluice/internal/model"
)

// Options configures how to reach libvirt, and timeouts. The zero value is usable.
type Options struct {
	URI    string       // "" means qemu:///system
	Logger *slog.Logger // nil discards

	Keepalive  time.Duration // interval of pings; a silent libvirtd is given up after about three times this; 0: 5 s
	Resync     time.Duration // at least this often all domains are read again; 0: 1 min
	Watch      time.Duration // polling interval of jobs (migrations), also checked before every change; of virtual PFs' links a fifth; 0: 20 s
	MinBackoff time.Duration // first pause before reconnecting; 0: 200 ms
	MaxBackoff time.Duration // longest pause before reconnecting; 0: 10 s
	CallLimit  time.Duration // timeout of calls that Conn makes on its own; 0: 10 s

	NoMetadata bool // ignore SLAs in the domains' metadata

	Switches Switches // needed only to define virtual PFs with taps
}

// Switches tells how taps are connected to the host's switches.
type Switches interface {
	// Connection returns how a VM's definition connects a tap to the switch of that name, or an error that wraps model.ErrPermanent.
	Connection(ctx context.Context, name string) (model.TapConnection, error)
}

// Domain is an active domain according to its live XML and events. Of model.VM it sets ID, Name, State, Started, Ready, NUMANode, VCPUs,
// free ports, SLAs and the virtio NICs; of a NIC Alias, MAC, Tap, Network, VLAN, Failover (teaming only) and FreePort; of a function of a
// virtual PF also VirtualPF, Function and Carrier (one of backend vdpa has no Tap and no Network). It does not set what the kernel knows
// (ifindex, link state, FDB, traffic) and who owns a VF.
type Domain struct {
	model.VM
	Hostdevs []Hostdev

	aliases  []string             // of all devices
	macs     map[model.MAC]string // of all interfaces, with their aliases
	metadata error                // why its metadata could not be read
}

// Hostdev is a PCI device of the host assigned to a domain, as plain <hostdev> or as <interface type='hostdev'>.
type Hostdev struct {
	Alias             string
	Address           model.PCIAddress
	Managed           bool      // libvirt binds and unbinds the driver itself
	Interface         bool      // it is an <interface type='hostdev'>
	MAC               model.MAC // only for an Interface
	TeamingPersistent string    // alias of the virtio NIC it is teamed with, "" for none
}

// HostdevSpec is a VF to be attached as plain hostdev, managed='no': the caller sets its driver, MAC and VLAN.
type HostdevSpec struct {
	Alias             string // must start with "ua-", which libvirt requires
	Address           model.PCIAddress
	TeamingPersistent string // alias of the virtio NIC, "" for no teaming (a bond in the guest)
}

// Stat is what Stats returns for a domain.
type Stat struct {
	CPUTime  time.Duration // host CPU time used since the domain started, guest and QEMU together
	CPUKnown bool
	State    model.VMState // never VMMigrating: only Domains reports that
}
