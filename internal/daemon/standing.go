package daemon

import (
	"context"
	"strings"

	"sluice/internal/daemon/runner"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// standing adds to Snapshots what exists on the host whichever process made it: dual paths, as left by a move that was cut short,
// limits of taps that no VM has, and ports of the embedded switch.
type standing struct {
	runner.Source
	uplinks dualPaths
	taps    interface {
		TapPolicies(ctx context.Context) ([]tap.Policy, error)
		SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error)
	}
}

// dualPaths is the part of uplink.Set that reads dual paths.
type dualPaths interface {
	DualPaths(ctx context.Context) ([]model.DualPath, error)
	CheckDualPaths() error
}

// Snapshot implements runner.Source.
func (s standing) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	snap, err := s.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	both, err := s.uplinks.DualPaths(ctx)
	if err != nil {
		snap.Problems = append(snap.Problems, model.Problem{Text: "cannot tell which dual paths are open: " + err.Error()})
	}
	if err := s.uplinks.CheckDualPaths(); err != nil {
		why, remedy, _ := strings.Cut(err.Error(), "; ")
		text := "if the daemon is killed during a move, that VM may be cut off until the next start: " + why
		snap.Problems = append(snap.Problems, model.Problem{Text: text, Remedy: remedy})
	}
	for i := range both {
		addDualPath(snap, &both[i])
	}
	taps, err := s.taps.TapPolicies(ctx)
	if err != nil {
		snap.Problems = append(snap.Problems, model.Problem{Text: "cannot tell which taps are limited: " + err.Error()})
	}
	addLimited(snap, taps)
	ports, err := s.taps.SwitchPorts(ctx)
	if err != nil {
		snap.Problems = append(snap.Problems, model.Problem{Text: "cannot tell which taps are switch ports: " + err.Error()})
	}
	addPorts(snap, ports)
	return snap, nil
}

// addDualPath adds a dual path to its NIC, or to the list of the Snapshot if no NIC has its tap and MAC.
func addDualPath(snap *model.Snapshot, d *model.DualPath) {
	for i := range snap.VMs {
		for k := range snap.VMs[i].NICs {
			if n := &snap.VMs[i].NICs[k]; d.Detached != model.Yes && n.Tap == d.Tap && n.MAC == d.MAC {
				n.DualPath = true
				return
			}
		}
	}
	snap.DualPaths = append(snap.DualPaths, *d)
}

// addPorts adds the switch ports that belong to no function of a virtual PF. If others removed a function's programs, the virtual
// PF controller attaches them again.
func addPorts(snap *model.Snapshot, ports []model.SwitchPortState) {
	if len(ports) == 0 {
		return
	}
	functions := map[string]bool{}
	for i := range snap.VMs {
		for k := range snap.VMs[i].NICs {
			n := &snap.VMs[i].NICs[k]
			functions[n.Tap] = functions[n.Tap] || n.VirtualPF != ""
		}
	}
	for i := range ports {
		if p := &ports[i]; !functions[p.Tap] {
			snap.Ports = append(snap.Ports, model.TapLimit{Tap: p.Tap, Detached: p.Detached})
		}
	}
}

// addLimited adds the limited taps that belong to no NIC; for taps of NICs the bandwidth controller reports the limits.
func addLimited(snap *model.Snapshot, taps []tap.Policy) {
	if len(taps) == 0 {
		return
	}
	owned := map[string]bool{}
	for i := range snap.VMs {
		for k := range snap.VMs[i].NICs {
			owned[snap.VMs[i].NICs[k].Tap] = true
		}
	}
	for i := range taps {
		if t := &taps[i]; t.Detached == model.Yes || !owned[t.Tap] {
			snap.Limited = append(snap.Limited, model.TapLimit{Tap: t.Tap, Detached: t.Detached})
		}
	}
}
