package daemon

import (
	"context"
	"strings"

	"sluice/internal/control/loop"
	"sluice/internal/host/kernel"
	"sluice/internal/model"
)

// mirrored adds to Snapshots which windows are open, whichever process opened them: a move
// that was cut short shows there. So do limits of taps that no VM has.
type mirrored struct {
	loop.Source
	kernel interface {
		Mirrors(ctx context.Context) ([]kernel.Mirror, error)
		CheckMirrors() error
		TapPolicies(ctx context.Context) ([]kernel.TapPolicy, error)
		SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error)
	}
}

// Snapshot implements loop.Source.
func (m mirrored) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	snap, err := m.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	mirrors, err := m.kernel.Mirrors(ctx)
	if err != nil {
		snap.Problems = append(snap.Problems, model.Problem{Text: "cannot tell which windows are open: " + err.Error()})
	}
	if err := m.kernel.CheckMirrors(); err != nil {
		why, remedy, _ := strings.Cut(err.Error(), "; ")
		text := "if the daemon is killed during a move, that VM may be cut off until the next start: " + why
		snap.Problems = append(snap.Problems, model.Problem{Text: text, Remedy: remedy})
	}
	for i := range mirrors {
		addMirror(snap, &mirrors[i])
	}
	taps, err := m.kernel.TapPolicies(ctx)
	if err != nil {
		snap.Problems = append(snap.Problems, model.Problem{Text: "cannot tell which taps are limited: " + err.Error()})
	}
	addLimited(snap, taps)
	ports, err := m.kernel.SwitchPorts(ctx)
	if err != nil {
		snap.Problems = append(snap.Problems, model.Problem{Text: "cannot tell which taps are switch ports: " + err.Error()})
	}
	addPorts(snap, ports)
	return snap, nil
}

// addMirror shows a mirror at its NIC, or by itself if no NIC has its tap and MAC.
func addMirror(snap *model.Snapshot, m *kernel.Mirror) {
	for i := range snap.VMs {
		for k := range snap.VMs[i].NICs {
			if n := &snap.VMs[i].NICs[k]; m.Detached != model.Yes && n.Tap == m.Tap && n.MAC == m.MAC {
				n.DualPath = true
				return
			}
		}
	}
	snap.DualPaths = append(snap.DualPaths, model.DualPath{Tap: m.Tap, MAC: m.MAC, PF: m.PF, VLAN: m.VLAN, Detached: m.Detached})
}

// addPorts shows the switch ports that no function of a virtual PF has; one whose programs others took off is set anew by itself.
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

// addLimited shows the limited taps that no NIC has; a NIC's own are what the bandwidth controller says of it.
func addLimited(snap *model.Snapshot, taps []kernel.TapPolicy) {
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
