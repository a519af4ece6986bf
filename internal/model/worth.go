package model

import (
	"cmp"
	"time"
)

// Sensitivity is how much a VM's users are affected by packet latency: a VF avoids most of it.
type Sensitivity string

// Values of Sensitivity. "" is normal.
const (
	SensitivityLow    Sensitivity = "low"
	SensitivityNormal Sensitivity = "normal"
	SensitivityHigh   Sensitivity = "high"
)

// Worth determines the value of a packet when VFs are shared out. With the zero Worth every packet of a VM without a sensitivity
// has the value one.
type Worth struct {
	// Latency is the value of a packet of a VM with high latency sensitivity, and the reciprocal of that with low sensitivity; 0:
	// DefaultLatencyWorth.
	Latency float64 `json:"latency,omitempty"`
	// CPU scales the value of a packet by the CPU time that virtio spends on it.
	CPU  bool       `json:"cpu,omitempty"`
	Cost PacketCost `json:"cost,omitzero"` // with CPU: the time spent; zero: unknown, and packets of all sizes have the same value
}

// DefaultLatencyWorth is Worth.Latency if not configured.
const DefaultLatencyWorth = 3.0

// PacketCost is the CPU time per packet that virtio costs the host beyond what a VF does: a fixed part, and a part for every
// 1,000 bytes.
type PacketCost struct {
	Packet   time.Duration `json:"packet_ns"`
	Kilobyte time.Duration `json:"kilobyte_ns"`
}

// A packet of WorthSize bytes has the value one. Packets are assumed to be no larger than IP's maximum.
const (
	WorthSize  = 512.0
	worthLarge = 65535.0
)

// OfSensitivity returns the value of a packet by its VM's latency sensitivity.
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

// OfLoad returns the value of a packet by the CPU time that virtio spends on it, for a load in packets/s and bytes/s. If bytes is
// 0 the size is unknown, and the value is 1.
func (w *Worth) OfLoad(pps, bytes float64) float64 {
	if !w.CPU || w.Cost == (PacketCost{}) || !(pps > 0) || !(bytes > 0) {
		return 1
	}
	return w.Cost.of(min(bytes/pps, worthLarge)) / w.Cost.of(WorthSize)
}

// of returns the cost of a packet of that size, in ns.
func (c PacketCost) of(size float64) float64 {
	return float64(c.Packet) + float64(c.Kilobyte)*size/1000
}
