package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Finding is something in the ledger that is not as it should be.
type Finding struct {
	Host   string `json:"host,omitempty"`
	PF     string `json:"pci_address,omitempty"`
	VM     string `json:"uuid,omitempty"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Check looks for what is wrong in the fleet: links with more claims than they carry, guarantees without a claim, NICs at two hosts. With
// here, the Offer of one host as its daemon sees it, also for that host's claims without a VM, and its VMs without a claim.
func Check(s *State, here *Offer) []Finding {
	out := []Finding{}
	at, vms := map[string]*Provider{}, map[string][]string{}
	for i := range s.Providers {
		p := &s.Providers[i]
		at[p.ID] = p
		out = append(out, checkProvider(p)...)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Claims)) {
		c := s.Claims[id]
		h, ours := HolderOf(&c)
		if hosts := hostsOf(&c, at); ours && len(hosts) == 1 {
			vms[h.VM] = append(vms[h.VM], hosts...)
		}
		if hosts := hostsOf(&c, at); ours && len(hosts) > 1 {
			out = append(out, Finding{
				VM: h.VM, Text: fmt.Sprintf("its NIC %s has a claim at %s", h.MAC, strings.Join(hosts, " and at ")),
				Remedy: release(h) + ": the host where the VM is claims again",
			})
		} else if h, yes := migrationOf(&c); yes {
			out = append(out, checkMigration(h, hosts))
		} else if !ours && c.Type == ConsumerType {
			out = append(out, Finding{
				Host: strings.Join(hosts, ", "), Text: fmt.Sprintf("the consumer %s has Sluice's type, but is not Sluice's", id),
				Remedy: "find out who made it: openstack resource provider allocation show " + id,
			})
		}
	}
	for _, vm := range slices.Sorted(maps.Keys(vms)) {
		slices.Sort(vms[vm])
		if hosts := slices.Compact(vms[vm]); len(hosts) > 1 {
			out = append(out, Finding{
				VM: vm, Text: "its NICs have claims at " + strings.Join(hosts, " and at "),
				Remedy: "sluice fleet release for the NICs whose claims are where the VM is not",
			})
		}
	}
	if here != nil {
		out = append(out, checkHere(s, here)...)
	}
	return out
}

func checkProvider(p *Provider) (out []Finding) {
	for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
		unit := map[string]string{ClassBits: "kbit/s", ClassPackets: "kpps"}[class]
		if unit == "" {
			continue
		}
		inv, used := p.Inventories[class], p.Used[class]
		f := Finding{Host: hostOf(p.Name), PF: addressOf(p.Name)}
		if used > inv.Total {
			f.Text = fmt.Sprintf("%d %s are claimed of %d", used, unit, inv.Total)
			f.Remedy = "move a VM away, or lower a guarantee: sluice sla"
			out = append(out, f)
		}
		if inv.Reserved > 0 {
			f.Text = fmt.Sprintf("%d %s are guaranteed there without a claim", inv.Reserved, unit)
			f.Remedy = "see which on that host: sluice fleet fsck"
			out = append(out, f)
		}
	}
	return out
}

// hostsOf names the hosts of a claim.
func hostsOf(c *Claim, at map[string]*Provider) (hosts []string) {
	for provider := range c.Amounts {
		if p := at[provider]; p != nil {
			hosts = append(hosts, hostOf(p.Name))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// checkHere compares the ledger with what one host sees.
func checkHere(s *State, here *Offer) (out []Finding) {
	promised := map[string]bool{}
	for i := range here.Promises {
		promised[here.Promises[i].Consumer] = true
	}
	own := map[string]bool{here.Host.ID: true}
	for i := range s.Providers {
		own[s.Providers[i].ID] = own[s.Providers[i].ID] || here.Host.owns(&s.Providers[i])
	}
	for _, id := range slices.Sorted(maps.Keys(s.Claims)) {
		c := s.Claims[id]
		at := slices.ContainsFunc(slices.Collect(maps.Keys(c.Amounts)), func(p string) bool { return own[p] })
		if h, ours := HolderOf(&c); ours && at && !promised[id] && !here.Kept[id] {
			out = append(out, Finding{
				Host: here.Host.Name, VM: h.VM, Text: fmt.Sprintf("a claim for %s, but no guarantee to it here", h.MAC),
				Remedy: "start the VM with its SLA here, or " + release(h),
			})
		}
	}
	plan, err := Decide(here, s)
	if err != nil {
		return append(out, Finding{Host: here.Host.Name, Text: err.Error(), Remedy: "see docs/fleet.md"})
	}
	for _, u := range plan.Unclaimed {
		out = append(out, Finding{
			Host: here.Host.Name, VM: u.Promise.Holder.VM, Text: u.String(),
			Remedy: "free room there, or lower the guarantee: sluice sla",
		})
	}
	if len(plan.Requests) > 0 {
		out = append(out, Finding{
			Host: here.Host.Name, Text: "the ledger is not what the host offers and guarantees",
			Remedy: "it is brought up to date each minute by `sluice fleet publish`: systemctl status sluice-fleet",
		})
	}
	return out
}

func release(h Holder) string { return fmt.Sprintf("sluice fleet release %s --mac %s", h.VM, h.MAC) }
