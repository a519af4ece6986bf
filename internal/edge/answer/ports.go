package answer

import (
	"sluice/api/v1"
	"sluice/internal/control/bandwidth"
	"sluice/internal/model"
)

// Ports lists the ports of Neutron by tap, with what the host makes of each.
func Ports(snap *model.Snapshot, rules *model.Rules) api.HostPorts {
	out := api.HostPorts{Ports: []api.HostPortState{}}
	for _, p := range bandwidth.FitPorts(snap, rules) {
		s := api.HostPortState{
			HostPort: api.HostPort{
				ID: p.ID, Tap: p.Tap, MAC: p.MAC.String(),
				Guarantee: rateOf(p.SLA.Guarantee), Limit: rateOf(p.SLA.Limit), Receive: rateOf(p.SLA.Receive),
			},
			NIC: p.NIC, Refused: p.Why, Remedy: p.Remedy,
		}
		if p.VM != nil {
			s.VM = p.VM.Name
		}
		out.Ports = append(out.Ports, s)
	}
	return out
}
