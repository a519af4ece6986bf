package htb

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/bpf"
	"sluice/internal/host/sysif"
)

// Constants of linux/pkt_sched.h that the unix package lacks.
const (
	tcRoot = 0xffffffff // TC_H_ROOT

	tcaHTBParms  = 1 // TCA_HTB_PARMS: struct tc_htb_opt
	tcaHTBInit   = 2 // TCA_HTB_INIT: struct tc_htb_glob
	tcaHTBRate64 = 6 // TCA_HTB_RATE64
	tcaHTBCeil64 = 7 // TCA_HTB_CEIL64

	tcaStatsBasic = 1 // TCA_STATS_BASIC: u64 bytes, u32 packets
	tcaStatsQueue = 3 // TCA_STATS_QUEUE: u32 packets waiting, bytes waiting, drops, ...

	htbVersion    = 3
	linkEthernet  = 1            // TC_LINKLAYER_ETHERNET: the kernel computes times itself, without tables from user space
	sizeofHTB     = 44           // struct tc_htb_opt
	tickNS        = 64           // the kernel's unit of bursts, in ns
	wireMin       = 84           // bytes of the shortest frame on the wire
	shaperHandle  = 0x51ce << 16 // not 1:, which an uplink's own HTB uses: frames keep their class as their priority
	shaperShift   = 4
	shaperRoot    = shaperHandle | 1      // the parent of all other classes
	shaperRest    = shaperHandle | 0xffff // the class for unclassified frames
	shaperBurstNS = 2_000_000             // burst of a class after a pause; covers late timers
)

// htbRequest creates the HTB qdisc, which puts unclassified frames into shaperRest.
func htbRequest(dev int) *rtnl.Request {
	const rate2quantum = 10 // unused, since each class has its own quantum; 0 would be refused
	req := rtnl.NewRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, rtnl.Traffic(dev, shaperHandle, tcRoot))
	return req.String(unix.TCA_KIND, "htb").Nest(unix.TCA_OPTIONS, func(r *rtnl.Request) {
		r.Bytes(tcaHTBInit, sysif.Words(htbVersion, rate2quantum, shaperRest&0xffff, 0, 0))
	})
}

// classRequest creates a class or changes it in place, which keeps its queue.
func classRequest(dev int, id uint32, c ShaperClass) *rtnl.Request {
	parent := uint32(shaperRoot)
	if id == shaperRoot {
		parent = shaperHandle
	}
	rate, ceil := c.Rate/8, c.Ceil/8
	opt := append(ratespec(rate), ratespec(ceil)...)
	opt = append(opt, sysif.Words(shaperBurstNS/tickNS, shaperBurstNS/tickNS, c.Quantum, 0, 0)...)
	req := rtnl.NewRequest(unix.RTM_NEWTCLASS, unix.NLM_F_CREATE, rtnl.Traffic(dev, id, parent))
	return req.String(unix.TCA_KIND, "htb").Nest(unix.TCA_OPTIONS, func(r *rtnl.Request) {
		r.U64(tcaHTBRate64, rate).U64(tcaHTBCeil64, ceil).Bytes(tcaHTBParms, opt)
	})
}

// ratespec encodes a struct tc_ratespec for a rate in bytes/s on the wire. A rate beyond 32 bits goes into a separate attribute.
func ratespec(bytes uint64) []byte {
	b := []byte{0, linkEthernet}
	b = binary.NativeEndian.AppendUint16(b, bpf.WireOverhead)
	b = append(b, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, wireMin)
	return binary.NativeEndian.AppendUint32(b, uint32(min(bytes, math.MaxUint32)))
}

// fifoRequest gives a class a queue with a limit in bytes.
func fifoRequest(dev int, class uint32, bytes int) *rtnl.Request {
	req := rtnl.NewRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, rtnl.Traffic(dev, 0, class))
	return req.String(unix.TCA_KIND, "bfifo").Bytes(unix.TCA_OPTIONS, sysif.Words(uint32(bytes)))
}

// classMsg is a class as reported by the kernel.
type classMsg struct {
	id     uint32
	queued bool // it has an explicitly attached queue
	ShaperClass
}

// decodeClass decodes an RTM_NEWTCLASS of an HTB class.
func decodeClass(m rtnl.Message) (c classMsg, ok bool) {
	attrs := rtnl.Body(m.Data, rtnl.SizeofTraffic)
	if m.Type != unix.RTM_NEWTCLASS || attrs == nil || string(rtnl.CString(rtnl.Attr(attrs, unix.TCA_KIND))) != "htb" {
		return c, false
	}
	c.id, c.queued = rtnl.U32(m.Data[8:]), rtnl.U32(m.Data[16:]) != 0
	c.ID = uint16(c.id) >> shaperShift
	options := rtnl.Attr(attrs, unix.TCA_OPTIONS)
	opt := rtnl.Attr(options, tcaHTBParms)
	if len(opt) < sizeofHTB {
		return c, false
	}
	c.Rate = 8 * max(uint64(rtnl.U32(opt[8:])), rtnl.U64(rtnl.Attr(options, tcaHTBRate64)))
	c.Ceil = 8 * max(uint64(rtnl.U32(opt[20:])), rtnl.U64(rtnl.Attr(options, tcaHTBCeil64)))
	c.Quantum = rtnl.U32(opt[32:])
	stats := rtnl.Attr(attrs, unix.TCA_STATS2)
	basic, queue := rtnl.Attr(stats, tcaStatsBasic), rtnl.Attr(stats, tcaStatsQueue)
	c.Bytes, c.Packets = rtnl.U64(basic), uint64(rtnl.U32(rtnl.Body(basic, 8)))
	c.Waiting, c.Drops = rtnl.U32(rtnl.Body(queue, 4)), rtnl.U32(rtnl.Body(queue, 8))
	return c, true
}

// ifbRequest creates an ifb device.
func ifbRequest(name string) *rtnl.Request {
	req := rtnl.NewRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, rtnl.Link(unix.AF_UNSPEC, 0))
	return req.String(unix.IFLA_IFNAME, name).Nest(unix.IFLA_LINKINFO, func(r *rtnl.Request) {
		r.String(unix.IFLA_INFO_KIND, "ifb")
	})
}

// upRequest sets a link up.
func upRequest(dev int) *rtnl.Request {
	msg := rtnl.Link(unix.AF_UNSPEC, dev)
	binary.NativeEndian.PutUint32(msg[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(msg[12:], unix.IFF_UP)
	return rtnl.NewRequest(unix.RTM_SETLINK, 0, msg)
}
