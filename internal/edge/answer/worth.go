package answer

import (
	"strings"

	"sluice/internal/model"
)

// worth says the value of one of a VM's packets in its score and where it comes from; "" if it is one.
func (x *Index) worth(vm *model.VM, r *model.Reason) string {
	if r.Worth == 0 {
		return ""
	}
	rule := x.Rules.For(vm.ID, vm.Name)
	latency := x.Rules.Worth.OfSensitivity(rule.Sensitivity)
	var by []string
	if rule.Weight != 1 {
		by = append(by, "weight "+model.SI(rule.Weight))
	}
	if latency != 1 {
		by = append(by, "latency sensitivity "+string(rule.Sensitivity)+": "+model.SI(latency))
	}
	if !r.OfPackets() {
		return "its share of the time with a VF counts " + model.SI(rule.Weight*latency) + bracket(strings.Join(by, ", "))
	}
	// The remaining factor is the CPU cost at the current load; without CPU weighting it is 1 up to rounding errors.
	if cpu := model.SI(r.Worth / rule.Weight / latency); cpu != "1" {
		by = append(by, "host CPU on virtio: "+cpu+" of a packet of 512 bytes")
	}
	return "a packet of " + vm.Name + " is worth " + model.SI(r.Worth) + bracket(strings.Join(by, ", "))
}
