package demo

import (
	"context"
	"fmt"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// preparer gives simulated VMs what they lack for a VF. They have no definitions: it shows what would be added to one, and
// the change takes effect at once.
type preparer struct {
	world *sim.World
	do    func(ctx context.Context, f func(now time.Time)) error // runs f while the world is paused
	added map[model.VMID]lacks
}

// lacks is what a VM's definition lacks, or was given.
type lacks struct{ teaming, port bool }

// Prepare implements server.Preparer.
func (p *preparer) Prepare(ctx context.Context, r api.Prepare) ([]api.Prepared, error) {
	list := []api.Prepared{}
	err := p.do(ctx, func(time.Time) {
		for _, vm := range p.world.VMs() {
			if r.All || r.VM == vm.Name || r.VM == string(vm.ID) {
				list = append(list, p.one(vm, &r))
			}
		}
	})
	if err == nil && len(list) == 0 && !r.All {
		err = &api.Error{Text: fmt.Sprintf("there is no VM %q", r.VM), Remedy: "list the VMs: sluice vms"}
	}
	return list, err
}

func (p *preparer) one(vm *sim.VM, r *api.Prepare) api.Prepared {
	out := api.Prepared{VM: vm.Name, ID: string(vm.ID), Changes: []string{}, Notes: []string{}, Lacks: []api.Problem{}}
	change := lacks{vm.NoTeaming, vm.NoPort}
	if r.Undo {
		change = p.added[vm.ID]
	}
	if change.teaming {
		out.Changes = append(out.Changes, "<teaming type='persistent'/> at its NIC")
	}
	if change.port {
		out.Changes = append(out.Changes, "a free PCIe root port for a VF")
	}
	if change == (lacks{}) {
		return out
	}
	out.Effect = "at once: a simulated VM has no XML to show and needs no restart"
	if r.DryRun {
		return out
	}
	out.Defined = true
	if change.teaming {
		vm.NoTeaming = r.Undo
	}
	if change.port {
		vm.NoPort = r.Undo
	}
	if delete(p.added, vm.ID); !r.Undo {
		p.added[vm.ID] = change
	}
	return out
}
