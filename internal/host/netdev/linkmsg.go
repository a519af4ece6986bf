package netdev

import (
	"encoding/hex"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
)

// Bits of IFLA_EXT_MASK (linux/rtnetlink.h) that the unix package does not name.
const (
	ExtVF        = 1 << 0 // RTEXT_FILTER_VF
	ExtSkipStats = 1 << 3 // RTEXT_FILTER_SKIP_STATS
)

// sizeofStatsMsg is the size of struct if_stats_msg, the header of RTM_GETSTATS.
const sizeofStatsMsg = 12

func linksRequest() *rtnl.Request {
	return rtnl.NewRequest(unix.RTM_GETLINK, 0, rtnl.Link(unix.AF_UNSPEC, 0))
}

// LinkRequest requests one interface by name, with bits of IFLA_EXT_MASK.
func LinkRequest(name string, ext uint32) *rtnl.Request {
	return linksRequest().String(unix.IFLA_IFNAME, name).U32(unix.IFLA_EXT_MASK, ext)
}

// LinkRequestIndex requests one interface by index, without its counters.
func LinkRequestIndex(index int) *rtnl.Request {
	msg := rtnl.Link(unix.AF_UNSPEC, index)
	return rtnl.NewRequest(unix.RTM_GETLINK, 0, msg).U32(unix.IFLA_EXT_MASK, ExtSkipStats)
}

// StatsRequest requests only the counters of all interfaces.
func StatsRequest() *rtnl.Request {
	msg := make([]byte, sizeofStatsMsg)
	msg[8] = 1 << (unix.IFLA_STATS_LINK_64 - 1)
	return rtnl.NewRequest(unix.RTM_GETSTATS, 0, msg)
}

// MustDecode turns a decoder for dumps into one for single answers.
func MustDecode[T any](decode func(rtnl.Message) (T, bool)) func(rtnl.Message) (T, error) {
	return func(m rtnl.Message) (T, error) {
		v, ok := decode(m)
		if !ok {
			return v, sysif.ErrNoAnswer
		}
		return v, nil
	}
}

// DecodeLink decodes an RTM_NEWLINK. It rejects the messages of the bridge family that bridges send for their ports.
func DecodeLink(m rtnl.Message) (l Link, ok bool) {
	attrs := rtnl.Body(m.Data, unix.SizeofIfInfomsg)
	if m.Type != unix.RTM_NEWLINK || attrs == nil || m.Data[0] != unix.AF_UNSPEC {
		return l, false
	}
	l.Index = int(int32(rtnl.U32(m.Data[4:])))
	l.Up = rtnl.U32(m.Data[8:])&unix.IFF_UP != 0
	for t, v := range rtnl.Attrs(attrs) {
		switch t {
		case unix.IFLA_IFNAME:
			l.Name = string(rtnl.CString(v))
		case unix.IFLA_IFALIAS:
			l.Alias = string(rtnl.CString(v))
		case unix.IFLA_MASTER:
			l.Master = int(int32(rtnl.U32(v)))
		case unix.IFLA_CARRIER:
			l.Carrier = rtnl.U8(v) != 0
		case unix.IFLA_PHYS_PORT_NAME:
			l.Port = string(rtnl.CString(v))
		case unix.IFLA_PHYS_SWITCH_ID:
			l.Switch = hex.EncodeToString(v)
		case unix.IFLA_STATS64:
			l.Counters = decodeStats64(v)
		case unix.IFLA_LINKINFO:
			l.Kind = string(rtnl.CString(rtnl.Attr(v, unix.IFLA_INFO_KIND)))
			l.VLANs, l.Bond = decodeKind(l.Kind, v)
		}
	}
	return l, l.Index > 0 && l.Name != ""
}

// LinkStats are the counters of one interface, as the answer to StatsRequest has them. A guest transmits to its tap's Rx.
type LinkStats struct {
	Index int
	Counters
}

// DecodeStats decodes an answer to StatsRequest.
func DecodeStats(m rtnl.Message) (s LinkStats, ok bool) {
	attrs := rtnl.Body(m.Data, sizeofStatsMsg)
	if m.Type != unix.RTM_NEWSTATS || attrs == nil {
		return s, false
	}
	s.Index = int(int32(rtnl.U32(m.Data[4:])))
	v := rtnl.Attr(attrs, unix.IFLA_STATS_LINK_64)
	s.Counters = decodeStats64(v)
	return s, v != nil
}

// decodeStats64 decodes a struct rtnl_link_stats64, which is longer on newer kernels.
func decodeStats64(b []byte) Counters {
	at := func(i int) uint64 { return rtnl.U64(rtnl.Body(b, 8*i)) }
	return Counters{
		RxPackets: at(0), TxPackets: at(1),
		RxBytes: at(2), TxBytes: at(3),
		RxDropped: at(6), TxDropped: at(7),
	}
}

// decodeKind decodes the kind-specific part of an IFLA_LINKINFO.
func decodeKind(kind string, info []byte) (vlans bool, b Bond) {
	switch kind {
	case "bridge":
		data := rtnl.Attr(info, unix.IFLA_INFO_DATA)
		vlans = rtnl.U8(rtnl.Attr(data, unix.IFLA_BR_VLAN_FILTERING)) != 0
	case "bond":
		data := rtnl.Attr(info, unix.IFLA_INFO_DATA)
		b.Mode = BondMode(rtnl.U8(rtnl.Attr(data, unix.IFLA_BOND_MODE)))
		b.Active = int(int32(rtnl.U32(rtnl.Attr(data, unix.IFLA_BOND_ACTIVE_SLAVE))))
	}
	return vlans, b
}

// Mbit is the kernel's unit of VF rates, in bits/s.
const Mbit = 1_000_000
