package scenario

import "sluice/internal/model"

// WorthOf is what rules say, as a scenario has it.
func WorthOf(w *model.Worth) Worth {
	out := Worth{Latency: w.Latency}
	if w.CPU {
		out.PacketCPU, out.KilobyteCPU = w.Cost.Packet, w.Cost.Kilobyte
	}
	return out
}

// rules is the same as policies have it.
func (w *Worth) rules() model.Worth {
	cost := model.PacketCost{Packet: w.PacketCPU, Kilobyte: w.KilobyteCPU}
	return model.Worth{Latency: w.Latency, CPU: cost != (model.PacketCost{}), Cost: cost}
}

// worthCounts says whether packets count differently in the score.
func (s *Scenario) worthCounts() bool {
	if s.Worth.rules().CPU {
		return true
	}
	for i := range s.VMs {
		if s.VMs[i].Latency != "" {
			return true
		}
	}
	return false
}
