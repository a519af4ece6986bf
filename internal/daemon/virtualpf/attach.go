package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"sluice/internal/channel"
	"sluice/internal/control/vpf"
	"sluice/internal/model"
)

// Attach implements channel.Requests. A grant is written before it is applied, and taken back if it cannot be applied in time.
func (g guest) Attach(ctx context.Context, a channel.Attach) (channel.Attached, error) {
	if !g.m.Runner.Enforce() {
		return channel.Attached{}, g.failed(errObserve)
	}
	run, err := g.running()
	if err != nil {
		return channel.Attached{}, err
	}
	f, err := g.find(g.m.Runner.Store.State(), a.VF)
	if err != nil {
		return channel.Attached{}, err
	}
	asked, err := vpf.ParseRequest(&a)
	if err != nil {
		return channel.Attached{}, err
	}
	if err := g.checkMAC(ctx, f, asked.MAC); err != nil {
		return channel.Attached{}, err
	}
	judge := func(s *vpf.State) (*model.VirtualVF, model.VFGrant, error) {
		v, err := s.VF(f)
		if err != nil {
			return nil, model.VFGrant{}, g.failed(err)
		}
		grant, err := g.grant(s, run, f, v, a.Owner, &asked)
		return v, grant, err
	}
	next := g.m.Runner.Store.State()
	had, grant, err := judge(next)
	if err != nil { // what is refused costs no write
		return channel.Attached{}, err
	}
	before := *had
	if had.Grant == nil || !reflect.DeepEqual(*had.Grant, grant) || next.Guests[g.vm].Run != run.Run { // else it was asked again
		next, err = g.update(ctx, func(s *vpf.State) error {
			v, now, err := judge(s)
			if err != nil {
				return err
			}
			if s.Guests[g.vm].Run != run.Run {
				s.Guests[g.vm] = vpf.Guest{Run: run.Run}
			}
			before, grant, v.Grant = *v, now, &now
			return nil
		})
		if err != nil {
			return channel.Attached{}, err
		}
	}
	err = g.m.settled(ctx, f, next.Rev)
	if err == nil {
		err = g.checkCarrier(f)
	}
	if err != nil {
		return channel.Attached{}, errors.Join(g.failed(err), g.undo(f, &before, &grant))
	}
	v, err := next.VF(f)
	if err != nil {
		return channel.Attached{}, g.failed(err)
	}
	return channel.Attached{MAC: macOf(v).String(), VLAN: v.Grant.Port.VLAN}, nil
}

// checkMAC refuses a MAC that is used outside virtual PFs. It may ask libvirt, so it is called before the State is locked.
func (g guest) checkMAC(ctx context.Context, f vpf.Function, mac model.MAC) error {
	v, err := g.m.Runner.Store.State().VF(f)
	if err != nil || mac.IsZero() || mac == v.MAC {
		return nil //nolint:nilerr // grant says what is wrong
	}
	var used *usedMAC
	if err = g.m.unused(ctx, mac); errors.As(err, &used) {
		return inUse(mac)
	}
	if err != nil {
		return g.failed(err)
	}
	return nil
}

func inUse(mac model.MAC) error {
	return vpf.Denied(fmt.Sprintf("MAC %s is in use on this host", mac), "ask for another")
}

// grant judges a request by policy, by what others hold and by the guarantees of the virtual PF.
func (g guest) grant(s *vpf.State, run *vpf.VM, f vpf.Function, v *model.VirtualVF, owner string, asked *model.VFRequest,
) (model.VFGrant, error) {
	if v.Grant != nil && v.Grant.Owner != owner {
		return model.VFGrant{}, &channel.Error{
			Code: channel.CodeBusy, Text: fmt.Sprintf("VF %d is attached to %s", f.VF, v.Grant.Owner),
			Remedy: "detach it there first, or take another VF",
		}
	}
	if s.Grants(g.vm) > 0 && s.Guests[g.vm].Run != run.Run {
		return model.VFGrant{}, &channel.Error{
			Code: channel.CodeFailed, Text: "the grants from before this VM's restart are being revoked",
			Remedy: "try again",
		}
	}
	policy := g.m.policy(g.vm)
	grant, err := vpf.Judge(asked, v, &policy)
	grant.Owner = owner
	if err != nil {
		return grant, err
	}
	if !grant.MAC.IsZero() {
		if has := g.m.owner(grant.MAC, f); has != "" {
			return grant, inUse(grant.MAC)
		}
	}
	p := s.Find(f.VM, f.Name)
	if err := vpf.CheckGrant(p, &grant); err != nil {
		return grant, vpf.Denied(err.Error(), "ask for less, or take a VF of another virtual PF")
	}
	if nic := run.NIC(f.Name, -1); nic != nil {
		err = vpf.Admit(p, f.VF, grant.Port.SLA.Guarantee, g.m.SLA(&run.VM, nic).Guarantee)
	}
	grant.Since = g.m.Now().UTC().Round(0)
	if v.Grant != nil {
		grant.Since = v.Grant.Since
	}
	return grant, err
}

// checkCarrier returns why a VF that was granted has no carrier although nothing is left to be done.
func (g guest) checkCarrier(f vpf.Function) error {
	v, _ := g.m.Runner.View()
	s := v.Find(f.VM, f.Name)
	if s == nil || f.VF+1 >= len(s.Functions) {
		return errors.New("its virtual PF is gone")
	}
	fn := &s.Functions[f.VF+1]
	if up, _ := vpf.WantsLink(&s.VirtualPF, f.VF); fn.InForce && (!up || fn.Carrier == model.Yes) {
		return nil
	}
	return errors.New(whyNot(v, s, f.VF))
}

// undo reverts an Attach that could not be applied: the VF has its earlier grant again, with what the host has set since.
func (g guest) undo(f vpf.Function, before *model.VirtualVF, granted *model.VFGrant) error {
	g.m.allowance(g.vm).changes.Reserve() // not waited for here: the guest's next change is
	_, err := g.m.Runner.Store.UpdateSoon(func(s *vpf.State) error {
		v, err := s.VF(f)
		if err != nil || v.Grant == nil || v.Grant.Owner != granted.Owner {
			return nil //nolint:nilerr // there is nothing to undo
		}
		set := vpf.Differ(&granted.Port, &v.Grant.Port) // by the host, since
		v.Grant = nil
		if before.Grant != nil {
			policy, grant := g.m.policy(g.vm), *before.Grant
			grant.Port = vpf.Follow(before, v.Port, set, &policy)
			v.Grant = &grant
		}
		return nil
	})
	g.m.Runner.Wake()
	return err
}

// macOf is what the interface of a VF has.
func macOf(v *model.VirtualVF) model.MAC {
	if v.Grant != nil && !v.Grant.MAC.IsZero() {
		return v.Grant.MAC
	}
	return v.MAC
}
