package scenario

import (
	"slices"

	"sluice/internal/model"
)

// WorthOf converts from the form of rules.
func WorthOf(w *model.Worth) Worth {
	out := Worth{Latency: w.Latency}
	if w.CPU {
		out.PacketCPU, out.KilobyteCPU = w.Cost.Packet, w.Cost.Kilobyte
	}
	return out
}

// rules converts to the form of rules.
func (w *Worth) rules() model.Worth {
	cost := model.PacketCost{Packet: w.PacketCPU, Kilobyte: w.KilobyteCPU}
	return model.Worth{Latency: w.Latency, CPU: cost != (model.PacketCost{}), Cost: cost}
}

// worthCounts reports whether packets have different values in the score.
func (s *Scenario) worthCounts() bool {
	return s.Worth.rules().CPU || slices.ContainsFunc(s.VMs, func(g Group) bool { return g.Latency != "" })
}
