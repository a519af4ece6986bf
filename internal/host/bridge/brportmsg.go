package bridge

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/model"
)

// Constants of linux/if_bridge.h and linux/rtnetlink.h that the unix package lacks.
const (
	bridgeVLANInfo = 2 // IFLA_BRIDGE_VLAN_INFO: struct bridge_vlan_info

	vlanPVID       = 1 << 1 // BRIDGE_VLAN_INFO_...
	vlanUntagged   = 1 << 2
	vlanRangeBegin = 1 << 3
	vlanRangeEnd   = 1 << 4

	stateDisabled   = 0 // BR_STATE_...
	stateForwarding = 3

	extBridgeVLANs = 1 << 2 // RTEXT_FILTER_BRVLAN_COMPRESSED
)

// portVLAN is a VLAN of which a bridge port is a member.
type portVLAN struct {
	id    int
	flags uint16
}

// bridgeVLANsRequest requests all bridge ports with their VLANs, compressed into ranges.
func bridgeVLANsRequest() *rtnl.Request {
	return rtnl.NewRequest(unix.RTM_GETLINK, 0, rtnl.Link(unix.AF_BRIDGE, 0)).U32(unix.IFLA_EXT_MASK, extBridgeVLANs)
}

// decodeBridgeVLANs selects the VLANs of one port from the answers.
func decodeBridgeVLANs(port int) func(rtnl.Message) ([]portVLAN, bool) {
	return func(m rtnl.Message) (all []portVLAN, ok bool) {
		attrs := rtnl.Body(m.Data, unix.SizeofIfInfomsg)
		if m.Type != unix.RTM_NEWLINK || attrs == nil || m.Data[0] != unix.AF_BRIDGE || int(int32(rtnl.U32(m.Data[4:]))) != port {
			return nil, false
		}
		first := 0
		for t, v := range rtnl.Attrs(rtnl.Attr(attrs, unix.IFLA_AF_SPEC)) {
			flags, id := rtnl.U16(v), int(rtnl.U16(rtnl.Body(v, 2)))
			if t != bridgeVLANInfo || id < 1 || id > model.MaxVLAN {
				continue
			}
			if flags&vlanRangeEnd == 0 || first == 0 {
				first = id
			}
			if flags&vlanRangeBegin != 0 {
				continue
			}
			for ; first <= id; first++ {
				all = append(all, portVLAN{first, flags & (vlanPVID | vlanUntagged)})
			}
		}
		return all, true
	}
}

// memberRequest makes a port a member of a VLAN with these flags.
func memberRequest(port int, v portVLAN) *rtnl.Request {
	req := rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_BRIDGE, port))
	return req.Nest(unix.IFLA_AF_SPEC, func(r *rtnl.Request) {
		r.Bytes(bridgeVLANInfo, binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, v.flags), uint16(v.id)))
	})
}

// bridgeVLANsChange makes a port a tagged member of VLANs (RTM_SETLINK) or removes it from them (RTM_DELLINK).
func bridgeVLANsChange(typ uint16, port int, vlans model.VLANs) *rtnl.Request {
	req := rtnl.NewRequest(typ, 0, rtnl.Link(unix.AF_BRIDGE, port))
	return req.Nest(unix.IFLA_AF_SPEC, func(r *rtnl.Request) {
		info := func(flags uint16, id int) {
			r.Bytes(bridgeVLANInfo, binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, flags), uint16(id)))
		}
		for _, v := range vlans {
			if v.First == v.Last {
				info(0, v.First)
				continue
			}
			info(vlanRangeBegin, v.First)
			info(vlanRangeEnd, v.Last)
		}
	})
}
