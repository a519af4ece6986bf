package placement

import (
	"slices"
	"time"

	"sluice/internal/model"
)

// capper is a policy that limits the rates of VFs.
type capper interface {
	Policy
	// caps fills in the rates of all holders of VFs of one network's PFs.
	caps(now time.Time, links []link)
}

// link is a PF's link, with the NICs that hold its VFs or are about to.
type link struct {
	speed   float64 // bits/s; 0: unknown
	vfs     int     // VFs of the PF except foreign ones
	holders []holder
}

// holder is a NIC that holds a VF, whoever assigned it.
type holder struct {
	id   model.NICID
	load float64 // bits/s that it currently sends
	rate uint64  // bits/s that its VF may send, 0: unlimited; filled in by the policy
}

// caps asks the policy of each network for the rate limits of its PFs' VFs.
func (d *Decider) caps(now time.Time, snap *model.Snapshot, t *model.Target) []model.Limit {
	var out []model.Limit
	for i := range d.work.pools {
		network := d.work.pools[i].network
		c, ok := d.policy(network).(capper)
		if !ok {
			continue
		}
		links := linksOf(snap, network, t.Assign)
		c.caps(now, links)
		for _, l := range links {
			for _, h := range l.holders {
				if h.rate > 0 {
					out = append(out, model.Limit{
						LimitKey: model.LimitKey{VM: h.id.VM, NIC: h.id.NIC, Path: model.PathVF, Dir: model.Tx},
						Rate:     model.Rate{Bits: h.rate},
					})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b model.Limit) int { return model.CompareKeys(a.LimitKey, b.LimitKey) })
	return out
}

// linksOf collects the holders of VFs of a network's PFs.
func linksOf(snap *model.Snapshot, network string, assign []model.Assignment) []link {
	var links []link
	for i := range snap.PFs {
		pf := &snap.PFs[i]
		if !pf.Managed || pf.Network != network {
			continue
		}
		l := link{speed: float64(pf.Shared())}
		for j := range pf.VFs {
			if pf.VFs[j].Owner != model.OwnerForeign {
				l.vfs++
			}
		}
		for _, a := range assign {
			if a.VF.PF == pf.Name {
				l.holders = append(l.holders, holder{id: model.NICID{VM: a.VM, NIC: a.NIC}, load: loadOf(snap, a)})
			}
		}
		links = append(links, l)
	}
	return links
}

// loadOf is what a NIC currently sends, in bits/s; 0 if unknown.
func loadOf(snap *model.Snapshot, a model.Assignment) float64 {
	vm := snap.FindVM(a.VM)
	if vm == nil {
		return 0
	}
	nic := vm.FindNIC(a.NIC)
	if nic == nil {
		return 0
	}
	bytes := nic.Virtio.TxBytes + nic.VFPath.TxBytes
	if _, _, known := nic.Load(); !known || !finite(bytes) {
		return 0
	}
	return 8 * bytes
}

// tellRates copies the Limits into the Reasons of their NICs. Both are ordered by VM.
func tellRates(snap *model.Snapshot, t *model.Target) {
	i := 0
	for _, l := range t.Limits {
		for snap.VMs[i].ID != l.VM {
			i++
		}
		why := t.NIC(i, l.NIC)
		why.Rate = l.Bits
		if t.Reasons[i].NIC == why.NIC {
			t.Reasons[i].Rate = l.Bits
		}
	}
}
