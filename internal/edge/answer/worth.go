package answer

import (
	"strings"

	"sluice/internal/model"
)

// worth says what a packet of a VM counts in its score, and by what; "" where it counts as one.
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
	// What is left of the factors is that of its load at the time; 1 but for noise in the last digits where CPU does not count.
	if cpu := model.SI(r.Worth / rule.Weight / latency); cpu != "1" {
		by = append(by, "host CPU on virtio: "+cpu+" of a packet of 512 bytes")
	}
	return "a packet of " + vm.Name + " is worth " + model.SI(r.Worth) + bracket(strings.Join(by, ", "))
}
