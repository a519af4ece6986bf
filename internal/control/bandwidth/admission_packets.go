package bandwidth

import "sluice/internal/model"

// packetLimits reports that VMs on virtio may together send more packets/s than the host carries. Nothing is refused for it: limits
// promise nothing. But those who rely on limits alone should know.
func (out *Admission) packetLimits(asked []Asked, hostPackets uint64) {
	host := hostSupply(hostPackets)
	var list []claim
	sum := uint64(0)
	for i := range asked {
		a := &asked[i]
		if a.SLA.Limit.Packets == 0 || a.OnVF || a.inside() {
			continue
		}
		most := a.SLA.Limit.Packets
		if k := len(list) - 1; k >= 0 && list[k].asked.ID.VM == a.ID.VM { // its NICs share one limit
			more := max(most, list[k].most) - list[k].most
			list[k].most, sum = list[k].most+more, sum+more
			continue
		}
		list, sum = append(list, claim{a, i, most}), sum+most
	}
	if hostPackets == 0 || sum <= hostPackets {
		return
	}
	out.Problems = append(out.Problems, model.Problem{
		Info: true,
		Text: "VMs on virtio may together send more packets than the host carries, so limits alone protect nobody: limits " + host.sum(list),
		Remedy: "guarantee packets/s to VMs that must be able to send them (`bandwidth.allocator: waterfill` keeps that), or lower limits " +
			"where they come from: " + host.places(list),
	})
}
