package vf

import (
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// vfState is what a PF's driver reports about one VF. SpoofCheck and Trust are Unknown if it does not report them.
type vfState struct {
	Index      int
	MAC        model.MAC
	VLAN       int
	MinTxRate  uint64 // bits/s
	MaxTxRate  uint64 // bits/s
	RateNode   string // as in model.VF
	SpoofCheck model.Tri
	Trust      model.Tri
	Counters   netdev.Counters
}

// decodeVFs decodes the VFs of a PF from an RTM_NEWLINK.
func decodeVFs(m rtnl.Message) ([]vfState, error) {
	attrs := rtnl.Body(m.Data, unix.SizeofIfInfomsg)
	if m.Type != unix.RTM_NEWLINK || attrs == nil {
		return nil, sysif.ErrNoAnswer
	}
	var vfs []vfState
	for t, v := range rtnl.Attrs(rtnl.Attr(attrs, unix.IFLA_VFINFO_LIST)) {
		if t == unix.IFLA_VF_INFO {
			vfs = append(vfs, decodeVF(v))
		}
	}
	return vfs, nil
}

// decodeVF decodes an IFLA_VF_INFO. Each attribute begins with the VF's index.
func decodeVF(info []byte) (s vfState) {
	for t, v := range rtnl.Attrs(info) {
		value := rtnl.Body(v, 4)
		switch t {
		case unix.IFLA_VF_MAC:
			s.Index = int(int32(rtnl.U32(v)))
			copy(s.MAC[:], value)
		case unix.IFLA_VF_VLAN:
			s.VLAN = int(rtnl.U32(value) & 0xfff)
		case unix.IFLA_VF_SPOOFCHK:
			s.SpoofCheck = setting(value)
		case unix.IFLA_VF_TRUST:
			s.Trust = setting(value)
		case unix.IFLA_VF_RATE:
			s.MinTxRate = uint64(rtnl.U32(value)) * netdev.Mbit
			s.MaxTxRate = uint64(rtnl.U32(rtnl.Body(value, 4))) * netdev.Mbit
		case unix.IFLA_VF_STATS:
			s.Counters = decodeVFStats(v)
		}
	}
	return s
}

// AppendVFCounters decodes only the counters from an RTM_NEWLINK.
func AppendVFCounters(to []Counters, m rtnl.Message) []Counters {
	attrs := rtnl.Body(m.Data, unix.SizeofIfInfomsg)
	if m.Type != unix.RTM_NEWLINK || attrs == nil {
		return to
	}
	for t, info := range rtnl.Attrs(rtnl.Attr(attrs, unix.IFLA_VFINFO_LIST)) {
		if t == unix.IFLA_VF_INFO {
			index := rtnl.U32(rtnl.Attr(info, unix.IFLA_VF_MAC))
			to = append(to, Counters{int(int32(index)), decodeVFStats(rtnl.Attr(info, unix.IFLA_VF_STATS))})
		}
	}
	return to
}

// setting decodes a flag, which the kernel presets to -1 before it asks the driver.
func setting(b []byte) model.Tri {
	if len(b) < 4 || rtnl.U32(b) == ^uint32(0) {
		return model.Unknown
	}
	return model.TriOf(rtnl.U32(b) != 0)
}

func decodeVFStats(b []byte) (c netdev.Counters) {
	for t, v := range rtnl.Attrs(b) {
		switch t {
		case unix.IFLA_VF_STATS_RX_PACKETS:
			c.RxPackets = rtnl.U64(v)
		case unix.IFLA_VF_STATS_TX_PACKETS:
			c.TxPackets = rtnl.U64(v)
		case unix.IFLA_VF_STATS_RX_BYTES:
			c.RxBytes = rtnl.U64(v)
		case unix.IFLA_VF_STATS_TX_BYTES:
			c.TxBytes = rtnl.U64(v)
		case unix.IFLA_VF_STATS_RX_DROPPED:
			c.RxDropped = rtnl.U64(v)
		case unix.IFLA_VF_STATS_TX_DROPPED:
			c.TxDropped = rtnl.U64(v)
		}
	}
	return c
}

// vfChange is one attribute to set on a VF: its type, and the value after the VF index.
type vfChange struct {
	what  string // in messages; as in `ip link set PF vf N`
	attr  uint16
	value []byte
}

func changeMAC(mac model.MAC) vfChange {
	// struct ifla_vf_mac has room for 32 bytes.
	return vfChange{"mac " + mac.String(), unix.IFLA_VF_MAC, append(mac[:], make([]byte, 26)...)}
}

func changeVLAN(vlan int) vfChange {
	return vfChange{"vlan", unix.IFLA_VF_VLAN, sysif.Words(uint32(vlan), 0)}
}

func changeSpoofCheck(on bool) vfChange {
	return vfChange{"spoofchk", unix.IFLA_VF_SPOOFCHK, sysif.Words(sysif.Bit(on))}
}

func changeTrust(on bool) vfChange {
	return vfChange{"trust", unix.IFLA_VF_TRUST, sysif.Words(sysif.Bit(on))}
}

// changeRates sets both rates because the kernel has no message for a single one.
func changeRates(minBits, maxBits uint64) vfChange {
	return vfChange{"rate", unix.IFLA_VF_RATE, sysif.Words(megabits(minBits), megabits(maxBits))}
}

// rates returns what changeRates was told, in whole Mbit/s.
func (c vfChange) rates() Rates {
	return Rates{Min: uint64(rtnl.U32(c.value)) * netdev.Mbit, Max: uint64(rtnl.U32(rtnl.Body(c.value, 4))) * netdev.Mbit}
}

// megabits converts a rate to the kernel's unit.
func megabits(bits uint64) uint32 { return uint32(model.WholeMbit(bits) / netdev.Mbit) }

// request builds the RTM_SETLINK for VF idx of a PF.
func (c vfChange) request(pf string, idx int) *rtnl.Request {
	value := append(sysif.Words(uint32(idx)), c.value...)
	req := rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_UNSPEC, 0)).String(unix.IFLA_IFNAME, pf)
	return req.Nest(unix.IFLA_VFINFO_LIST, func(r *rtnl.Request) {
		r.Nest(unix.IFLA_VF_INFO, func(r *rtnl.Request) { r.Bytes(c.attr, value) })
	})
}

// Counters are the PF's counters for one VF; rx is what the VF received.
type Counters struct {
	VF int // its index at the PF
	netdev.Counters
}
