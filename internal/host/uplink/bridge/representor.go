package bridge

import (
	"fmt"

	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/model"
)

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
