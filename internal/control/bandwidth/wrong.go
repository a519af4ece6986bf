package bandwidth

import (
	"fmt"

	"sluice/internal/model"
)

// wrongRules lists errors in the rules that determine a NIC's SLA: a class that does not exist, and two rules that match this
// very VM, by name and by UUID, and disagree.
func wrongRules(rules *model.Rules, vm *model.VM, nic *model.NIC, class string) (list []model.Problem) {
	report := func(text, remedy string) {
		list = append(list, model.Problem{Subject: vm.Name, Text: "NIC " + nic.Alias + " of " + vm.Name + ": " + text, Remedy: remedy})
	}
	if class != "" && len(rules.Classes) > 0 && rules.FindClass(class) == nil {
		report(fmt.Sprintf("there is no class %q, which its SLA names", model.Shorten(class)),
			"add it to classes in sluice.yaml, or correct the name")
	}
	var first *model.VMRule
	for i := range rules.VMs {
		r := &rules.VMs[i]
		named := r.Match == vm.Name || r.Match == string(vm.ID)
		switch {
		case r.ByHand || !named || r.SLA.IsZero() || !nic.Named(r.SLANIC):
		case first == nil:
			first = r
		case r.Match != first.Match && first.SLA.Conflicts(&r.SLA):
			report(fmt.Sprintf("the rules at %s and %s disagree about its SLA: the first applies", first.SLA.Source, r.SLA.Source),
				"merge the two rules in sluice.yaml")
		}
	}
	return list
}
