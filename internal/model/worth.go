package model

import (
	"cmp"
	"time"
)

// Sensitivity says how much a VM's users mind that its packets wait: a VF spares them most of the wait.
type Sensitivity string

// The sensitivities. "" is normal.
const (
	SensitivityLow    Sensitivity = "low"
	SensitivityNormal Sensitivity = "normal"
	SensitivityHigh   Sensitivity = "high"
)

// Worth says what a packet counts where VFs are shared out. The zero Worth counts every packet of a VM without a
// sensitivity as one.
type Worth struct {
	// Latency is how many packets one of a VM with high latency sensitivity counts as, and how many of a VM with low
	// sensitivity count as one; 0: DefaultLatencyWorth.
	Latency float64 `json:"latency,omitempty"`
	// CPU makes a packet count by the CPU time that virtio spends on it.
	CPU  bool       `json:"cpu,omitempty"`
	Cost PacketCost `json:"cost,omitzero"` // with CPU: what it spends; zero: not known, and packets of all sizes count the same
}

// DefaultLatencyWorth is Worth.Latency where nobody says otherwise.
const DefaultLatencyWorth = 3.0

// PacketCost is the CPU time that virtio costs the host, more than a VF does, for a packet: so much for each, and so
// much for every 1,000 bytes of it.
type PacketCost struct {
	Packet   time.Duration `json:"packet_ns"`
	Kilobyte time.Duration `json:"kilobyte_ns"`
}

// Packets of WorthSize bytes count as one. A packet is taken to be no larger than the largest that IP has.
const (
	WorthSize  = 512.0
	worthLarge = 65535.0
)

// OfSensitivity is what a packet of a VM counts by its latency sensitivity.
func (w *Worth) OfSensitivity(s Sensitivity) float64 {
	high := cmp.Or(w.Latency, DefaultLatencyWorth)
	switch s {
	case SensitivityHigh:
		return high
	case SensitivityLow:
		return 1 / high
	case SensitivityNormal:
	}
	return 1
}

// OfLoad is what a packet counts by the CPU time that virtio spends on it, where the load is so many packets/s and bytes/s.
// Without bytes their size is not known, and it counts 1.
func (w *Worth) OfLoad(pps, bytes float64) float64 {
	if !w.CPU || w.Cost == (PacketCost{}) || !(pps > 0) || !(bytes > 0) {
		return 1
	}
	return w.Cost.of(min(bytes/pps, worthLarge)) / w.Cost.of(WorthSize)
}

// of is the cost of a packet of that size, in ns.
func (c PacketCost) of(size float64) float64 {
	return float64(c.Packet) + float64(c.Kilobyte)*size/1000
}
