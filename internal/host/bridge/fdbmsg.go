package bridge

import (
	"errors"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// neighSticky is NTF_STICKY (linux/neighbour.h).
const neighSticky = 1 << 6

// fdbMsg is a bridge FDB entry or an interface's unicast filter.
type fdbMsg struct {
	mac    model.MAC
	port   int // ifindex
	bridge int // ifindex, 0: the interface's own filter
	vlan   int
	state  uint16 // NUD_...
	self   bool
}

// pinned reports whether f is a static entry that somebody created: neither learned nor the port's own address.
func (f fdbMsg) pinned() bool {
	return f.bridge != 0 && !f.self && f.state == unix.NUD_NOARP
}

// counts reports whether the bridge uses the entry. A bridge that filters VLANs assigns each frame a VLAN, others none. Entries
// of the other kind exist as well, because the kernel creates each for VLAN 0 and for all VLANs of the port.
func (f fdbMsg) counts(filtersVLANs bool) bool { return (f.vlan != 0) == filtersVLANs }

// filter reports whether f is a unicast filter of the interface itself.
func (f fdbMsg) filter() bool { return f.self && f.bridge == 0 && f.mac[0]&1 == 0 }

// decodeFDB decodes an RTM_NEWNEIGH or RTM_DELNEIGH of the bridge family.
func decodeFDB(m rtnl.Message) (f fdbMsg, ok bool) {
	attrs := rtnl.Body(m.Data, unix.SizeofNdMsg)
	if attrs == nil || m.Data[0] != unix.AF_BRIDGE {
		return f, false
	}
	f.port = int(int32(rtnl.U32(m.Data[4:])))
	f.state = rtnl.U16(m.Data[8:])
	f.self = m.Data[10]&unix.NTF_SELF != 0
	hasMAC := false
	for t, v := range rtnl.Attrs(attrs) {
		switch t {
		case unix.NDA_LLADDR:
			hasMAC = len(v) == len(f.mac)
			copy(f.mac[:], v)
		case unix.NDA_MASTER:
			f.bridge = int(int32(rtnl.U32(v)))
		case unix.NDA_VLAN:
			f.vlan = int(rtnl.U16(v))
		}
	}
	return f, hasMAC && f.port > 0
}

// pinnedOnly selects the static entries from a dump.
func pinnedOnly(m rtnl.Message) (fdbMsg, bool) {
	f, ok := decodeFDB(m)
	return f, ok && f.pinned()
}

// filtersOf selects the filters of one interface from a dump, because older kernels ignore the restriction to one interface.
func filtersOf(index int) func(rtnl.Message) (model.MAC, bool) {
	return func(m rtnl.Message) (model.MAC, bool) {
		f, ok := decodeFDB(m)
		return f.mac, ok && f.filter() && f.port == index
	}
}

// fdbDump requests FDB entries and filters: those of one bridge's ports, of one interface, or with zeros of all.
func fdbDump(bridge, port int) *rtnl.Request {
	req := rtnl.NewRequest(unix.RTM_GETNEIGH, 0, rtnl.Neigh(unix.AF_BRIDGE, port, 0, 0))
	if bridge != 0 {
		req.U32(unix.NDA_MASTER, uint32(bridge))
	}
	return req
}

// pinRequest creates or moves an FDB entry.
func pinRequest(mac model.MAC, vlan, port int, sticky bool) *rtnl.Request {
	const flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	to := uint8(unix.NTF_MASTER)
	if sticky {
		to |= neighSticky
	}
	msg := rtnl.Neigh(unix.AF_BRIDGE, port, unix.NUD_NOARP, to)
	return withMAC(rtnl.NewRequest(unix.RTM_NEWNEIGH, flags, msg), mac, vlan)
}

func unpinRequest(mac model.MAC, vlan, port int) *rtnl.Request {
	msg := rtnl.Neigh(unix.AF_BRIDGE, port, 0, unix.NTF_MASTER)
	return withMAC(rtnl.NewRequest(unix.RTM_DELNEIGH, 0, msg), mac, vlan)
}

// selfRequest adds or removes (by typ) a filter of the interface itself. Drivers require the permanent state.
func selfRequest(typ, flags uint16, mac model.MAC, port int) *rtnl.Request {
	msg := rtnl.Neigh(unix.AF_BRIDGE, port, unix.NUD_PERMANENT, unix.NTF_SELF)
	return withMAC(rtnl.NewRequest(typ, flags, msg), mac, 0)
}

func withMAC(r *rtnl.Request, mac model.MAC, vlan int) *rtnl.Request {
	r.Bytes(unix.NDA_LLADDR, mac[:])
	if vlan != 0 {
		r.U16(unix.NDA_VLAN, uint16(vlan))
	}
	return r
}

// portFlagRequest sets a flag of a bridge port.
func portFlagRequest(port int, flag uint16, on bool) *rtnl.Request {
	req := rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_BRIDGE, port))
	return req.Nest(unix.IFLA_PROTINFO, func(r *rtnl.Request) { r.U8(flag, uint8(sysif.Bit(on))) })
}

// decodePort reads an attribute of a bridge port, which is one byte, from an RTM_NEWLINK.
func decodePort(attr uint16) func(rtnl.Message) (uint8, error) {
	return func(m rtnl.Message) (uint8, error) {
		info := rtnl.Attr(rtnl.Body(m.Data, unix.SizeofIfInfomsg), unix.IFLA_LINKINFO)
		if kind := rtnl.CString(rtnl.Attr(info, unix.IFLA_INFO_SLAVE_KIND)); string(kind) != "bridge" {
			return 0, ErrNotPort
		}
		return rtnl.U8(rtnl.Attr(rtnl.Attr(info, unix.IFLA_INFO_SLAVE_DATA), attr)), nil
	}
}

// ErrNotPort means that an interface is not a port of a bridge.
var ErrNotPort = errors.New("it is not a port of a bridge (ip link set DEV master BRIDGE)")
