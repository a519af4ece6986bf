package bridge

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// The bridge's part of a switch port: isolation, and VLAN membership if the bridge filters VLANs. Learning stays unchanged and
// the port need not be locked (IFLA_BRPORT_LOCKED): the tap's program drops frames with sources that the rules do not allow, so
// the bridge cannot learn a wrong address.

// switchSide returns an interface as a port of a bridge; bridge is zero if it is not one, but a port of a bond or of Open vSwitch.
func (h *Bridges) switchSide(ctx context.Context, dev string) (p bridgePort, isolated bool, err error) {
	p, err = h.port(ctx, dev)
	if err == nil {
		isolated, err = h.portFlag(ctx, dev, unix.IFLA_BRPORT_ISOLATED)
	}
	if errors.Is(err, ErrNotPort) { // perhaps only since port found the bridge
		return bridgePort{Link: p.Link}, false, nil
	}
	return p, isolated, err
}

// SetPort configures the bridge's part of a switch port.
func (h *Bridges) SetPort(ctx context.Context, want *model.SwitchPort) error {
	p, isolated, err := h.switchSide(ctx, want.Tap)
	switch {
	case err != nil:
		return err
	case want.Bridge != "" && p.bridge.Name != want.Bridge:
		return sysif.Permanent(fmt.Sprintf("it is not a port of bridge %[1]s: ip link set %[2]s master %[1]s, or in Open vSwitch: "+
			"ovs-vsctl add-port %[1]s %[2]s", want.Bridge, want.Tap))
	case p.bridge.Name == "" && want.Isolated:
		return sysif.Permanent("it is in no bridge, and only a port of one can be isolated")
	case p.bridge.Name == "":
		return nil
	}
	if isolated != want.Isolated {
		if err := h.isolate(ctx, p, want.Isolated); err != nil {
			return err
		}
	}
	if p.bridge.VLANs {
		return h.joinVLANs(ctx, p.Index, want.Rules)
	}
	return nil
}

// IsolateFirst isolates a port of any bridge. It ignores a tap that is not a bridge port or has gone, because SetPort reports that.
func (h *Bridges) IsolateFirst(ctx context.Context, tap string) error {
	p, isolated, err := h.switchSide(ctx, tap)
	if err != nil || p.bridge.Name == "" || isolated {
		return nil //nolint:nilerr // SetPort asks again
	}
	return h.isolate(ctx, p, true)
}

// ReadPort fills in the bridge's part of a switch port. A tap that has just gone is in no bridge.
func (h *Bridges) ReadPort(ctx context.Context, now *model.SwitchPortState) error {
	p, isolated, err := h.switchSide(ctx, now.Tap)
	if err != nil && !sysif.Gone(err) {
		return err
	}
	now.Bridge, now.Isolated = p.bridge.Name, isolated
	return nil
}

func (h *Bridges) isolate(ctx context.Context, p bridgePort, on bool) error {
	if err := h.setPortFlag(ctx, &p.Link, unix.IFLA_BRPORT_ISOLATED, on); err != nil {
		return fmt.Errorf("set isolated: %w", err)
	}
	return nil
}

// joinVLANs makes a port of a bridge that filters VLANs a tagged member of only the VLANs of its rules.
func (h *Bridges) joinVLANs(ctx context.Context, index int, rules []model.SwitchRule) error {
	for range 2 { // the second pass verifies
		have, err := h.vlansOf(ctx, index)
		if err != nil {
			return err
		}
		leave, join := vlanChanges(have, rules)
		if len(leave)+len(join) == 0 {
			return nil
		}
		for _, c := range []struct {
			typ   uint16
			vlans model.VLANs
		}{{unix.RTM_DELLINK, leave}, {unix.RTM_SETLINK, join}} {
			if len(c.vlans) == 0 {
				continue
			}
			if err := h.k.Write.Do(ctx, bridgeVLANsChange(c.typ, index, c.vlans)); err != nil {
				return fmt.Errorf("change its VLANs: %w", err)
			}
		}
	}
	return errors.New("the bridge accepted its VLANs but has others")
}

// vlanChanges returns the VLANs that a port must leave and join. A rule without VLAN sends and receives untagged frames; the port
// then keeps its untagged VLAN.
func vlanChanges(have []portVLAN, rules []model.SwitchRule) (leave, join model.VLANs) {
	var want, tagged, plain [model.MaxVLAN + 2]bool
	keepsPlain := false
	for i := range rules {
		r := &rules[i]
		keepsPlain = keepsPlain || r.VLAN == 0 && len(r.Trunk) == 0
		if r.VLAN != 0 {
			want[r.VLAN] = true
		}
		for _, v := range r.Trunk {
			for id := v.First; id <= v.Last; id++ {
				want[id] = true
			}
		}
	}
	for _, v := range have {
		if v.flags&(vlanPVID|vlanUntagged) != 0 {
			plain[v.id] = true
		} else {
			tagged[v.id] = true
		}
	}
	return ranges(func(id int) bool { return !want[id] && (tagged[id] || plain[id] && !keepsPlain) }),
		ranges(func(id int) bool { return want[id] && !tagged[id] })
}

func ranges(in func(id int) bool) (all model.VLANs) {
	for id := 1; id <= model.MaxVLAN; id++ {
		switch n := len(all); {
		case !in(id):
		case n > 0 && all[n-1].Last == id-1:
			all[n-1].Last = id
		default:
			all = append(all, model.VLANRange{First: id, Last: id})
		}
	}
	return all
}
