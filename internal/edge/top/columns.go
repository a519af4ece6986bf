package top

import (
	"cmp"
	"strings"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// column is a column of the table of VMs. compare sorts the most important VMs first.
type column struct {
	head    string
	width   int // 0: the remaining width
	least   int // minimum screen width at which it is shown
	right   bool
	text    func(s *state, vm *api.VM) string
	compare func(s *state, a, b *api.VM) int
}

// orderLoad is the index of the column by which the table is sorted initially.
const orderLoad = 2

var columns = []column{
	{
		head: "VM", width: 16, text: func(_ *state, vm *api.VM) string { return vm.Name },
		compare: func(_ *state, a, b *api.VM) int { return answer.Natural(a.Name, b.Name) },
	},
	{
		head: "PATH", width: 9, text: func(_ *state, vm *api.VM) string { return path(vm) },
		compare: func(_ *state, a, b *api.VM) int { return comparePaths(a, b) },
	},
	{
		head: "PACKETS/S", width: 9, right: true, text: func(_ *state, vm *api.VM) string { return known(vm, model.SI(vm.PPS)) },
		compare: func(_ *state, a, b *api.VM) int { return cmp.Compare(b.PPS, a.PPS) },
	},
	{
		head: "BITS/S", width: 7, right: true, text: func(_ *state, vm *api.VM) string { return known(vm, model.SI(8*vm.Bytes)) },
		compare: func(_ *state, a, b *api.VM) int { return cmp.Compare(b.Bytes, a.Bytes) },
	},
	{
		head: "SCORE", width: 8, least: 96, right: true, text: score,
		compare: func(_ *state, a, b *api.VM) int { return cmp.Compare(b.Score, a.Score) },
	},
	{
		head: "PROMISED", width: 8, least: 110, right: true, text: func(s *state, vm *api.VM) string { return bits(s.shares[vm.ID].guarantee) },
		compare: func(s *state, a, b *api.VM) int {
			return cmp.Compare(s.shares[b.ID].guarantee, s.shares[a.ID].guarantee)
		},
	},
	{
		head: "SHORT", width: 8, least: 110, right: true, text: func(s *state, vm *api.VM) string { return bits(s.shares[vm.ID].short) },
		compare: func(s *state, a, b *api.VM) int { return cmp.Compare(s.shares[b.ID].short, s.shares[a.ID].short) },
	},
	{
		head: "CPUS", width: 5, least: 140, right: true, text: func(_ *state, vm *api.VM) string { return model.SI(vm.CPU) },
		compare: func(_ *state, a, b *api.VM) int { return cmp.Compare(b.CPU, a.CPU) },
	},
	{
		head: "WHY", text: func(_ *state, vm *api.VM) string { return vm.Short },
		compare: func(_ *state, a, b *api.VM) int { return strings.Compare(a.Short, b.Short) },
	},
}

// path returns the VF of a VM, "virtio", its state if it does not run, or the move under way.
func path(vm *api.VM) string {
	switch {
	case vm.UnderWay != "":
		return vm.UnderWay + "..."
	case vm.VF != "":
		return vm.VF
	case vm.State != api.StateRunning:
		return vm.State
	}
	return "virtio"
}

// comparePaths puts VMs with a move under way first, then those with a VF, sorted by its name.
func comparePaths(a, b *api.VM) int {
	rank := func(vm *api.VM) int {
		switch {
		case vm.UnderWay != "":
			return 0
		case vm.VF != "":
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), answer.Natural(path(a), path(b)), answer.Natural(a.Name, b.Name))
}

func known(vm *api.VM, text string) string {
	if !vm.Known {
		return "?"
	}
	return text
}

// score formats the score with its unit: packets/s, or seconds for the policy fair, which scores by the time for which a VM
// was served.
func score(s *state, vm *api.VM) string {
	switch {
	case vm.Score == 0:
		return "-"
	case s.data.Status.Policy == "fair":
		return model.SI(vm.Score) + "s"
	}
	return model.PPS(vm.Score)
}

func bits(x float64) string {
	if x == 0 {
		return "-"
	}
	return model.Bits(x)
}
