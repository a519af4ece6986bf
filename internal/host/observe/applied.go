package observe

import (
	"context"
	"slices"
	"strings"

	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// Applied completes Snapshots with what is in force on the host, whichever process applied it: dual paths, also those left by a move that
// was cut short, limits of taps that no VM has, and ports of the embedded switch.
type Applied struct {
	Source interface {
		Snapshot(ctx context.Context) (*model.Snapshot, error)
	}
	Uplinks interface { // the part of uplink.Set that reads dual paths
		DualPaths(ctx context.Context) ([]model.DualPath, error)
		CheckDualPaths() error
	}
	Taps interface {
		TapPolicies(ctx context.Context) ([]tap.Policy, error)
		SwitchPorts(ctx context.Context) ([]model.SwitchPortState, error)
	}
}

// Snapshot implements runner.Source. What cannot be read becomes a problem of the Snapshot.
func (a Applied) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	snap, err := a.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	unknown := func(what string, err error) {
		if err != nil {
			snap.Problems = append(snap.Problems, model.Problem{Text: "cannot tell which " + what + ": " + err.Error()})
		}
	}
	both, err := a.Uplinks.DualPaths(ctx)
	unknown("dual paths are open", err)
	if err := a.Uplinks.CheckDualPaths(); err != nil {
		why, remedy, _ := strings.Cut(err.Error(), "; ")
		text := "if the daemon is killed during a move, that VM may be cut off until the next start: " + why
		snap.Problems = append(snap.Problems, model.Problem{Text: text, Remedy: remedy})
	}
	for i := range both {
		addDualPath(snap, &both[i])
	}
	taps, err := a.Taps.TapPolicies(ctx)
	unknown("taps are limited", err)
	addLimited(snap, taps)
	ports, err := a.Taps.SwitchPorts(ctx)
	unknown("taps are switch ports", err)
	addPorts(snap, ports)
	return snap, nil
}

// addDualPath adds a dual path to its NIC, or to the list of the Snapshot if no NIC has its tap and MAC.
func addDualPath(snap *model.Snapshot, d *model.DualPath) {
	for _, n := range snap.NICs() {
		if d.Detached != model.Yes && n.Tap == d.Tap && n.MAC == d.MAC {
			n.DualPath = true
			return
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
	for _, n := range snap.NICs() {
		functions[n.Tap] = functions[n.Tap] || n.VirtualPF != ""
	}
	for i := range ports {
		if p := &ports[i]; !functions[p.Tap] {
			snap.Ports = append(snap.Ports, model.TapLimit{Tap: p.Tap, Detached: p.Detached})
		}
	}
}

// addLimited adds the limits at representors to their VFs, and the limited taps that belong to no NIC; for taps of NICs the bandwidth
// controller reports the limits.
func addLimited(snap *model.Snapshot, taps []tap.Policy) {
	if len(taps) == 0 {
		return
	}
	owned := map[string]bool{}
	for _, n := range snap.NICs() {
		owned[n.Tap] = true
	}
	for i := range snap.PFs {
		if pf := &snap.PFs[i]; pf.Managed && pf.Uplink.Representors {
			addAtRepresentors(pf.VFs, taps, owned)
		}
	}
	for i := range taps {
		if t := &taps[i]; t.Detached == model.Yes || !owned[t.Tap] {
			snap.Limited = append(snap.Limited, model.TapLimit{Tap: t.Tap, Detached: t.Detached})
		}
	}
}

// addAtRepresentors adds the limits at the representors of VFs. Other programs of ours at one that has no limit are left to the caller.
func addAtRepresentors(vfs []model.VF, taps []tap.Policy, owned map[string]bool) {
	for i := range taps {
		t := &taps[i]
		at := slices.IndexFunc(vfs, func(vf model.VF) bool { return vf.Port == t.Tap && t.Detached != model.Yes })
		if at >= 0 && t.Tx.Contract.Packets > 0 {
			vfs[at].MaxPackets, owned[t.Tap] = t.Tx.Contract.Packets, true
		}
	}
}
