package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/internal/base/statefile"
	"sluice/internal/config"
	"sluice/internal/control/vpf"
	"sluice/internal/daemon/virtualpf"
	"sluice/internal/edge/backend"
	"sluice/internal/host/htb"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// Codes of findings about leftovers of a daemon that has died.
const (
	findLeftLimit = "left-limit" // the limit of a VM's NIC differs from its SLA
	findStaleTree = "stale-tree" // an HTB tree to which no tap is directed
	findLeftVDPA  = "left-vdpa"  // a vDPA device of ours that belongs to no virtual PF
)

// leftFindings finds limits and vDPA devices left by a daemon that has died. While a daemon runs, all of them are its own.
func leftFindings(ctx context.Context, h *host, c *config.Config, snap *model.Snapshot) []model.Finding {
	if daemonRuns(c.StateDir) {
		return nil
	}
	rules := c.Rules()
	if over, err := backend.OpenOverrides(filepath.Join(c.StateDir, "overrides.json")); err == nil {
		rules = over.Over(rules)
	}
	return leftovers(ctx, h, c, &rules, snap)
}

// leftWithin bounds a few netlink messages.
const leftWithin = 5 * time.Second

// addLeftovers adds them to the View of a daemon in observe mode, which sets no limits itself, unless another daemon does.
func (d *daemonState) addLeftovers(v *model.View) {
	if v.Mode != model.ModeObserve || v.Snapshot == nil || d.locks.enforced() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leftWithin)
	defer cancel()
	c := d.host.conf.Load()
	rules := d.over.Over(c.Rules())
	v.Findings = slices.Concat(v.Findings, leftovers(ctx, d.host, c, &rules, v.Snapshot))
}

func leftovers(ctx context.Context, h *host, c *config.Config, rules *model.Rules, snap *model.Snapshot) []model.Finding {
	slas := func(vm *model.VM, n *model.NIC) model.SLA {
		if !c.Bandwidth.Enabled {
			return model.SLA{}
		}
		return askedOf(rules, vm, n)
	}
	policies, _ := h.kernel.TapPolicies(ctx) // doctor reports the error
	shapers, _ := h.kernel.Shapers(ctx)
	out := slices.Concat(leftLimits(snap, slas, policies), leftTrees(snap, policies, shapers))
	devices, _ := h.kernel.VDPADevices(ctx)
	if store, err := virtualpf.OpenStore(filepath.Join(c.StateDir, virtualpf.FileName)); err == nil {
		out = append(out, leftDevices(devices, store.State().Devices())...)
	}
	return out
}

// leftDevices finds vDPA devices of ours that belong to no virtual PF.
func leftDevices(devices []model.VDPADevice, wanted map[string]bool) (out []model.Finding) {
	for i := range devices {
		name := devices[i].Name
		if _, ours := model.VDPAOurs(name); ours && !wanted[name] {
			out = append(out, model.Finding{
				Code: findLeftVDPA, Subject: name, Text: "this vDPA device belongs to no defined virtual PF",
				Remedy: "the next start of sluiced removes it in enforce mode, once its VM is off; or now: vdpa dev del " + name,
			})
		}
	}
	return out
}

// daemonRuns reports whether a process holds the lock of a state_dir.
func daemonRuns(dir string) bool {
	return lockedBySomebody(filepath.Join(dir, "lock"))
}

// lockedBySomebody reports whether a lock is held. It does not create a lock file that does not exist.
func lockedBySomebody(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	f, err := statefile.Lock(path)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, statefile.ErrLocked)
}

// leftLimits finds NICs of VMs whose limits differ from their SLAs.
func leftLimits(snap *model.Snapshot, slas func(*model.VM, *model.NIC) model.SLA, policies []tap.Policy) (out []model.Finding) {
	const remedy = "the next start of sluiced lifts it in enforce mode, or now: sluiced --lift-limits"
	for vm, n := range snap.NICs() {
		sla := slas(vm, n)
		add := func(where, has string, want model.Rate) {
			text := fmt.Sprintf("its %s is %s, and its SLA asks for %s", where, has, limitText(want))
			out = append(out, model.Finding{Code: findLeftLimit, Subject: vm.Name + " " + n.Alias, Text: text, Remedy: remedy})
		}
		for _, p := range policies {
			if p.Tap != n.Tap || p.Detached == model.Yes {
				continue
			}
			if p.Shaper != 0 || !onlyContract(p.Tx, sla.Limit, n) {
				add("tap "+p.Tap, "left with "+ratesText(p.Tx, p.Shaper)+" for what it sends", sla.Limit)
			}
			if !onlyContract(p.Rx, sla.Receive, n) {
				add("tap "+p.Tap, "left with "+ratesText(p.Rx, 0)+" for what it receives", sla.Receive)
			}
		}
		// On a VF a limit in packets/s is converted to bits/s, by what the NIC sent at the time, and one above the link is the link's speed.
		if vf := snap.FindVF(n.Ours()); vf != nil && vf.MaxTxRate != 0 && vf.MaxTxRate != onVF(snap, vf, sla.Limit.Bits) &&
			sla.Limit.Packets == 0 {
			add("VF "+vf.ID.String(), "left with a limit of "+model.Rate{Bits: vf.MaxTxRate}.String(), sla.Limit)
		}
		if vf := snap.FindVF(n.Ours()); vf != nil && vf.MaxPackets != 0 && sla.Limit.Packets == 0 {
			add("representor "+vf.Port, "left with a limit of "+model.Rate{Packets: vf.MaxPackets}.String(), sla.Limit)
		}
	}
	return out
}

// onVF is the max_tx_rate for a limit in bits/s.
func onVF(snap *model.Snapshot, vf *model.VF, limit uint64) uint64 {
	if pf := snap.FindPF(vf.ID.PF); pf != nil && pf.Speed > 0 {
		limit = min(limit, pf.Speed)
	}
	return model.WholeMbit(limit)
}

// askedOf returns the SLA that determines a NIC's limits. For a function it is the lower of the function's own limits and those
// of its virtual PF.
func askedOf(rules *model.Rules, vm *model.VM, n *model.NIC) model.SLA {
	if n.VirtualPF == "" {
		return rules.SLA(vm, n)
	}
	pf := vm.FindNIC(model.VPFAlias(n.VirtualPF, -1))
	if pf == nil {
		pf = n
	}
	whole := rules.SLA(vm, pf)
	return model.SLA{Limit: vpf.Tighter(n.Share.Limit, whole.Limit), Receive: vpf.Tighter(n.Share.Receive, whole.Receive)}
}

// onlyContract reports whether the contract alone limits a path. A VM's packets/s are divided among its NICs, and a virtual PF's
// limits among its functions, so these are not compared exactly.
func onlyContract(r tap.PathRates, want model.Rate, n *model.NIC) bool {
	if n.VirtualPF != "" {
		return r.Now.IsZero() && (r.Contract.Bits > 0) == (want.Bits > 0) && r.Contract.Bits <= want.Bits &&
			(r.Contract.Packets > 0) == (want.Packets > 0)
	}
	return r.Now.IsZero() && r.Contract.Bits == want.Bits && (r.Contract.Packets > 0) == (want.Packets > 0)
}

func ratesText(r tap.PathRates, shaper int) string {
	text := limitText(r.Contract)
	if !r.Now.IsZero() {
		text = fmt.Sprintf("%s for %s at most, and then %s", r.Now, model.LimitLease.Round(time.Second), text)
	}
	if shaper != 0 {
		text += ", and directed to an HTB tree"
	}
	return text
}

func limitText(r model.Rate) string {
	if r.IsZero() {
		return "no limit"
	}
	return "a limit of " + r.String()
}

// leftTrees finds HTB trees to which no tap is directed.
func leftTrees(snap *model.Snapshot, policies []tap.Policy, shapers []htb.Shaper) (out []model.Finding) {
	for i := range shapers {
		s := &shapers[i]
		if slices.ContainsFunc(policies, func(p tap.Policy) bool { return p.LeadsTo(s.Device) }) {
			continue
		}
		name := fmt.Sprintf("interface %d", s.PF)
		if at := slices.IndexFunc(snap.PFs, func(pf model.PF) bool { return pf.Index == s.PF }); at >= 0 {
			name = "PF " + snap.PFs[at].Name
		}
		out = append(out, model.Finding{
			Code: findStaleTree, Subject: name, Text: "an HTB tree for its taps is left over, and no tap is directed to it",
			Remedy: "the next start of sluiced removes it, or now: sluiced --lift-limits",
		})
	}
	return out
}
