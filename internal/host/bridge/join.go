package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// JoinAs makes an interface, the representor of a VF, a port of the bridge that a tap is a port of: up, in the same VLANs, and without
// learning, so that only static entries send frames there. It does not take an interface out of another bridge.
func (h *Bridges) JoinAs(ctx context.Context, dev, tap string) error {
	return sysif.Fail("make it a port of the bridge of "+tap+":", dev, h.joinAs(ctx, dev, tap))
}

func (h *Bridges) joinAs(ctx context.Context, dev, tap string) error {
	like, err := h.port(ctx, tap)
	if err != nil {
		return fmt.Errorf("tap %s: %w", tap, err)
	}
	l, err := h.enslave(ctx, dev, &like.bridge)
	if err != nil {
		return err
	}
	if like.bridge.VLANs {
		if err := h.copyVLANs(ctx, l.Index, like.Index); err != nil {
			return err
		}
	}
	return h.forwards(ctx, dev)
}

// enslave makes an interface a port of a bridge, up and without learning.
func (h *Bridges) enslave(ctx context.Context, dev string, bridge *netdev.Link) (netdev.Link, error) {
	l, err := h.links.Link(ctx, dev)
	if err != nil {
		return l, err
	}
	if l.Master != 0 && l.Master != bridge.Index {
		return l, sysif.Permanent(fmt.Sprintf("it is a port of another interface: ip link set %s master %s", dev, bridge.Name))
	}
	if l.Master == 0 || !l.Up {
		if err := h.k.Write.Do(ctx, enslaveRequest(l.Index, bridge.Index)); err != nil {
			return l, err
		}
	}
	return l, h.PreparePort(ctx, dev)
}

// Join makes an interface a port of a bridge as JoinAs does, in the VLANs that the bridge gives to new ports.
func (h *Bridges) Join(ctx context.Context, dev, bridge string) error {
	to, err := h.links.Link(ctx, bridge)
	if err == nil {
		_, err = h.enslave(ctx, dev, &to)
	}
	if err == nil {
		err = h.forwards(ctx, dev)
	}
	return sysif.Fail("make it a port of "+bridge+":", dev, err)
}

// Leave takes an interface out of its bridge, and sets it down if that is wanted.
func (h *Bridges) Leave(ctx context.Context, dev string, down bool) error {
	l, err := h.links.Link(ctx, dev)
	if err == nil {
		err = h.k.Write.Do(ctx, leaveRequest(l.Index, down))
	}
	return sysif.Fail("take it out of its bridge:", dev, err)
}

// forwards fails while a port waits for the spanning tree protocol.
func (h *Bridges) forwards(ctx context.Context, dev string) error {
	state, err := h.portByte(ctx, dev, unix.IFLA_BRPORT_STATE)
	if err == nil && state != stateForwarding && state != stateDisabled { // disabled: it has no carrier until the guest uses the VF
		err = errors.New("the bridge does not pass its frames yet, because of the spanning tree protocol; it may in half a minute")
	}
	return err
}

// copyVLANs makes one port a member of the same VLANs as another, and of no others.
func (h *Bridges) copyVLANs(ctx context.Context, to, from int) error {
	for range 2 { // the second pass verifies
		want, err := h.vlansOf(ctx, from)
		if err != nil {
			return err
		}
		have, err := h.vlansOf(ctx, to)
		if err != nil {
			return err
		}
		done := true
		for _, v := range have {
			if !slices.ContainsFunc(want, func(w portVLAN) bool { return w.id == v.id }) {
				done = false
				gone := model.VLANs{{First: v.id, Last: v.id}}
				if err := h.k.Write.Do(ctx, bridgeVLANsChange(unix.RTM_DELLINK, to, gone)); err != nil {
					return fmt.Errorf("remove it from VLAN %d: %w", v.id, err)
				}
			}
		}
		for _, v := range want {
			if !slices.Contains(have, v) {
				done = false
				if err := h.k.Write.Do(ctx, memberRequest(to, v)); err != nil {
					return fmt.Errorf("add it to VLAN %d: %w", v.id, err)
				}
			}
		}
		if done {
			return nil
		}
	}
	return errors.New("the bridge accepted its VLANs but has others")
}

func (h *Bridges) vlansOf(ctx context.Context, index int) ([]portVLAN, error) {
	have, err := rtnl.Dump(ctx, h.k.Read, bridgeVLANsRequest(), decodeBridgeVLANs(index))
	if err != nil {
		return nil, fmt.Errorf("list VLANs: %w", err)
	}
	return slices.Concat(have...), nil
}

// enslaveRequest sets an interface up as a port of a bridge.
func enslaveRequest(index, bridge int) *rtnl.Request {
	msg := rtnl.Link(unix.AF_UNSPEC, index)
	binary.NativeEndian.PutUint32(msg[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(msg[12:], unix.IFF_UP)
	return rtnl.NewRequest(unix.RTM_SETLINK, 0, msg).U32(unix.IFLA_MASTER, uint32(bridge))
}

// leaveRequest takes an interface out of its bridge, and sets it down if that is wanted.
func leaveRequest(index int, down bool) *rtnl.Request {
	msg := rtnl.Link(unix.AF_UNSPEC, index)
	if down {
		binary.NativeEndian.PutUint32(msg[12:], unix.IFF_UP)
	}
	return rtnl.NewRequest(unix.RTM_SETLINK, 0, msg).U32(unix.IFLA_MASTER, 0)
}
