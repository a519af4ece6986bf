package kernel

import (
	"fmt"

	"sluice/internal/model"
)

// Bond is what a bond's link shows of it.
type Bond struct {
	Mode   BondMode
	Active int // ifindex of the active port of an active-backup bond, 0: none
}

// BondMode is one of linux/if_bonding.h.
type BondMode uint8

// ActiveBackup is the mode in which one port at a time sends and receives.
const ActiveBackup BondMode = 1

var bondModes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

// String prints the mode as ip(8) does.
func (m BondMode) String() string {
	if int(m) < len(bondModes) {
		return bondModes[m]
	}
	return fmt.Sprintf("mode %d", m)
}

// UplinkOf says which port of which bridge a PF is behind, and if VFs of it cannot be used
// there, why and what to do. byIndex has all links.
//
// A bond counts as the port of the PF that is active in it: the host then sends to and
// hears from that PF alone, as if it were the port. In other modes frames for a VF may come
// in through a port that is not its PF, whose NIC knows nothing of the VF; and
// what the host sends to the VF may leave through it, to a switch that never sends it back.
func UplinkOf(pf *Link, byIndex map[int]*Link) model.Uplink {
	master := byIndex[pf.Master]
	switch {
	case master == nil:
		return model.Uplink{
			Why:    pf.Name + " is in no bridge",
			Remedy: fmt.Sprintf("put it into the bridge that the VMs' taps are in: ip link set %s master BRIDGE", pf.Name),
		}
	case master.Kind == "bond":
		return bonded(pf, master, byIndex)
	}
	return portOf(pf, master)
}

// bonded is about a PF in a bond.
func bonded(pf, bond *Link, byIndex map[int]*Link) model.Uplink {
	bridge := byIndex[bond.Master]
	if bridge == nil {
		return model.Uplink{
			Why:    fmt.Sprintf("%s is in bond %s, which is in no bridge", pf.Name, bond.Name),
			Remedy: fmt.Sprintf("put the bond into the bridge that the VMs' taps are in: ip link set %s master BRIDGE", bond.Name),
		}
	}
	up := portOf(bond, bridge)
	active := byIndex[bond.Bond.Active]
	switch {
	case up.Why != "":
	case bond.Bond.Mode != ActiveBackup:
		up.Why = fmt.Sprintf("%s is in bond %s of mode %s, whose frames take any of its ports and not the PF of the VF they are for", pf.Name, bond.Name, bond.Bond.Mode)
		up.Remedy = "use mode active-backup, or take the PF out of the bond"
	case active == nil:
		up.Why = fmt.Sprintf("bond %s, which %s is in, has no active port", bond.Name, pf.Name)
		up.Remedy = "see to the cables: ip -d link show " + bond.Name
		up.Passes = true
	case active.Index != pf.Index:
		up.Why = fmt.Sprintf("%s is a backup of bond %s, which receives through %s", pf.Name, bond.Name, active.Name)
		up.Remedy = fmt.Sprintf("use VFs of %s, or: ip link set %s type bond active_slave %s", active.Name, bond.Name, pf.Name)
		up.Passes = true
	}
	return up
}

// portOf is about a port, which is the PF or its bond, of something that may be a bridge.
func portOf(port, master *Link) model.Uplink {
	switch master.Kind {
	case "bridge":
		return model.Uplink{Switch: master.Name, Port: port.Name}
	case "openvswitch":
		return model.Uplink{
			Why:    port.Name + " is a port of Open vSwitch, which Sluice cannot steer yet",
			Remedy: "connect the PF and the VMs' taps by a Linux bridge",
		}
	}
	return model.Uplink{
		Why:    fmt.Sprintf("%s is in %s (%s), not in a bridge", port.Name, master.Name, master.Kind),
		Remedy: "connect the PF and the VMs' taps by a Linux bridge, directly or through a bond of mode active-backup",
	}
}
