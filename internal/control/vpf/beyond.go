package vpf

import (
	"errors"
	"fmt"
	"slices"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// beyond says in what a grant that stands goes beyond what host policy would grant now, "" for nothing. The VF has one. A grant is never cut short
// because the policy was: whoever has the VF would lose it in the middle of its work.
func beyond(v *model.VirtualVF, g *model.GuestPolicy) string {
	a := asked(v)
	now, err := judge(&a, v, g)
	var said *channel.Error
	switch {
	case errors.As(err, &said):
		return said.Text
	case err != nil:
		return err.Error()
	}
	have, most := v.Grant.Port.SLA.Limit, now.Port.SLA.Limit
	if tighter(have, most) != have {
		return fmt.Sprintf("its limit is %s, and now is to be %s at most", orUnlimited(have), most)
	}
	return ""
}

func orUnlimited(r model.Rate) string {
	if r.IsZero() {
		return "none"
	}
	return r.String()
}

// asked is a request for what a VF was granted beside what the host has set for it.
func asked(v *model.VirtualVF) (a channel.Attach) {
	grant, host := &v.Grant.Port, &v.Port
	a.Owner = v.Grant.Owner
	if !v.Grant.MAC.IsZero() {
		a.MAC = v.Grant.MAC.String()
	}
	if grant.VLAN != host.VLAN || !slices.Equal(grant.Trunk, host.Trunk) {
		a.VLAN, a.Trunk = grant.VLAN, grant.Trunk.String()
	}
	if grant.NoSpoof != host.NoSpoof {
		check := !grant.NoSpoof
		a.SpoofChk = &check
	}
	if !slices.Equal(grant.Addresses, host.Addresses) {
		for _, addr := range grant.Addresses {
			a.Addresses = append(a.Addresses, addr.String())
		}
	}
	if grant.SLA.Guarantee != host.SLA.Guarantee {
		a.Guarantee = grant.SLA.Guarantee.String()
	}
	if grant.SLA.Weight != host.SLA.Weight {
		a.Weight = grant.SLA.Weight
	}
	return a
}

// overstanding are the grants of a virtual PF that go beyond the policy of its VM.
func (m *Manager) overstanding(s *Standing) (out []model.Problem) {
	for i := range s.VFs {
		if s.VFs[i].Grant == nil {
			continue
		}
		policy := m.Policy(s.VM, s.VMName)
		why := beyond(&s.VFs[i], &policy)
		if why == "" {
			continue
		}
		out = append(out, model.Problem{
			Subject: s.VMName,
			Text:    fmt.Sprintf("virtual PF %s: VF %d keeps what was granted to %s before virtual_pfs.guests was narrowed: %s", s.Name, i, s.VFs[i].Grant.Owner, why),
			Remedy:  "in the guest end what has the VF, or shut the VM down and start it; or allow it again in sluice.yaml",
		})
	}
	return out
}
