package bridge

import (
	"fmt"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

// strangers takes the port from the VFs whose representors are ports of another switch than the bridge.
func strangers(links *uplink.Links, pf *model.PF, br *netdev.Link) {
	for i := range pf.VFs {
		vf := &pf.VFs[i]
		if l := links.ByName[vf.Port]; l != nil && l.Master != 0 && l.Master != br.Index {
			where := "another interface"
			if m := links.Master(l); m != nil {
				where = m.Name
			}
			uplink.Elsewhere(vf, where, "ip link set "+l.Name+" master "+br.Name)
		}
	}
}

// oneSwitch sets why representors do not suffice for a PF in a bond, if so: the frames of the bond's other ports pass another NIC.
func oneSwitch(up *model.Uplink, links *uplink.Links, pf, bond *netdev.Link) {
	if bond.Bond.Mode == netdev.ActiveBackup {
		return
	}
	for _, l := range links.ByIndex {
		if l.Master == bond.Index && (l.Switch == "" || l.Switch != pf.Switch) {
			up.Why = fmt.Sprintf("%s is in bond %s of mode %s with %s, which belongs to another embedded switch", pf.Name, bond.Name,
				bond.Bond.Mode, l.Name)
			up.Remedy = "use mode active-backup, or ports of one NIC in mode switchdev that share one forwarding table (VF-LAG)"
			return
		}
	}
}
