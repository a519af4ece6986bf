package vpf

import (
	"errors"
	"fmt"
	"slices"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// Beyond describes how an existing grant exceeds what host policy would grant now, "" if it does not. The VF must have a grant. A
// narrower policy never reduces existing grants, since the pod that has the VF would lose it while in use.
func Beyond(v *model.VirtualVF, g *model.GuestPolicy) string {
	has := beyondHost(v)
	now, err := Judge(&has, v, g)
	var said *channel.Error
	switch {
	case errors.As(err, &said):
		return said.Text
	case err != nil:
		return err.Error()
	}
	have, most := v.Grant.Port.SLA.Limit, now.Port.SLA.Limit
	if Tighter(have, most) != have {
		return fmt.Sprintf("its limit is %s, but may now be at most %s", orUnlimited(have), most)
	}
	return ""
}

func orUnlimited(r model.Rate) string {
	if r.IsZero() {
		return "none"
	}
	return r.String()
}

// beyondHost returns, as a request, what a VF was granted beyond what the host has set for it.
func beyondHost(v *model.VirtualVF) (r model.VFRequest) {
	grant, host := &v.Grant.Port, &v.Port
	r.MAC = v.Grant.MAC
	if grant.VLAN != host.VLAN || !slices.Equal(grant.Trunk, host.Trunk) {
		r.VLAN, r.Trunk = grant.VLAN, grant.Trunk
	}
	if grant.NoSpoofCheck != host.NoSpoofCheck {
		check := !grant.NoSpoofCheck
		r.SpoofChk = &check
	}
	if !slices.Equal(grant.Addresses, host.Addresses) {
		r.Addresses = grant.Addresses
	}
	if grant.SLA.Guarantee != host.SLA.Guarantee {
		r.Guarantee = grant.SLA.Guarantee
	}
	if grant.SLA.Weight != host.SLA.Weight {
		r.Weight = grant.SLA.Weight
	}
	return r
}
