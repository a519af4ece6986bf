package qualify

import (
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// hostCPU fits a line to what virtio costs the host, more than the VF, with packets of these sizes. nil: fewer than two sizes
// were measured, or virtio costs no more.
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

// PacketCost is what virtio costs the host for a packet by the newest of these reports that says so. ok is false where none does.
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

// nanoseconds rounds; what no measurement shows, since the file was written by hand or damaged, is none.
func nanoseconds(seconds float64) time.Duration {
	if !(seconds >= 0 && seconds < 1) {
		return 0
	}
	return time.Duration(seconds*1e9 + 0.5)
}
