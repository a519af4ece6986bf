package qualify

import (
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// hostCPU fits a line to the additional CPU time that virtio costs the host compared with the VF, over the packet size. It returns nil if
// fewer than two sizes were measured, or if virtio costs no more.
func hostCPU(rows []api.PathBySize) *api.PacketCPU {
	var n, x, y, xx, xy float64
	for i := range rows {
		virtio, vf := rows[i].Virtio.HostCPU, rows[i].VF.HostCPU
		if virtio == nil || vf == nil {
			continue
		}
		kilobytes, more := float64(rows[i].Size)/1000, *virtio-*vf
		n, x, y, xx, xy = n+1, x+kilobytes, y+more, xx+kilobytes*kilobytes, xy+kilobytes*more
	}
	if n < 2 || y <= 0 || n*xx == x*x {
		return nil
	}
	slope := (n*xy - x*y) / (n*xx - x*x)
	// If noise makes one part negative, it counts as zero and the other part gets everything.
	switch at0 := (y - slope*x) / n; {
	case slope <= 0:
		return &api.PacketCPU{Packet: y / n}
	case at0 <= 0:
		return &api.PacketCPU{Kilobyte: xy / xx}
	default:
		return &api.PacketCPU{Packet: at0, Kilobyte: slope}
	}
}

// PacketCost returns virtio's cost to the host per packet, from the newest of the reports that contains it. ok is false if none does.
func PacketCost(reports []api.Qualification) (cost model.PacketCost, ok bool) {
	var at time.Time
	for i := range reports {
		q := &reports[i]
		if q.HostCPU == nil || ok && !q.At.After(at) {
			continue
		}
		cost = model.PacketCost{Packet: nanoseconds(q.HostCPU.Packet), Kilobyte: nanoseconds(q.HostCPU.Kilobyte)}
		at, ok = q.At, true
	}
	return cost, ok && cost != (model.PacketCost{})
}

// nanoseconds rounds. It returns 0 for values that no measurement gives, because the file was edited by hand or is damaged.
func nanoseconds(seconds float64) time.Duration {
	if !(seconds >= 0 && seconds < 1) {
		return 0
	}
	return time.Duration(seconds*1e9 + 0.5)
}
