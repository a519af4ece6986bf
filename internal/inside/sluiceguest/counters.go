package sluiceguest

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/channel"
)

// counters reads the guest's own NICs: those with a PCI device, in the network namespace of this process, which is usually the guest's
// initial one. It skips interfaces of containers, bridges, and the VFs of virtual PFs, which the host counts at their taps.
type counters struct {
	conn *rtnl.Conn
	sys  fs.FS
}

func newCounters(sys fs.FS) (*counters, error) {
	conn, err := rtnl.Dial(1)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &counters{conn, sys}, nil
}

// read returns as many interfaces as fit into a message.
func (c *counters) read(ctx context.Context) (out channel.Counters, err error) {
	links, err := rtnl.Dump(ctx, c.conn, rtnl.NewRequest(unix.RTM_GETLINK, 0, rtnl.Link(unix.AF_UNSPEC, 0)), decodeLink)
	if err != nil {
		return out, fmt.Errorf("list the interfaces: %w", err)
	}
	queues, err := rtnl.Dump(ctx, c.conn, rtnl.NewRequest(unix.RTM_GETQDISC, 0, rtnl.Traffic(0, 0, 0)), decodeQueue)
	if err != nil {
		return out, fmt.Errorf("list the queueing disciplines: %w", err)
	}
	waiting := map[uint32]uint64{}
	for _, q := range queues {
		waiting[q.index] = q.bytes
	}
	for _, l := range links {
		if len(out.Interfaces) < channel.MaxInterfaces && ownNIC(c.sys, l.Name) {
			l.Backlog = waiting[l.index]
			out.Interfaces = append(out.Interfaces, l.Interface)
		}
	}
	return out, nil
}

func (c *counters) Close() error { return c.conn.Close() }

// ownNIC reports whether an interface has a device that is not a VF of a PF in the guest.
func ownNIC(sys fs.FS, name string) bool {
	to, err := fs.ReadLink(sys, "class/net/"+name)
	if err != nil || strings.Contains(to, "/virtual/") {
		return false
	}
	device := path.Dir(path.Dir(path.Join("class/net", to)))
	for _, d := range []string{device, path.Dir(device)} { // a virtio device is below the PCI device
		if _, err := fs.ReadLink(sys, d+"/physfn"); err == nil {
			return false
		}
	}
	return true
}

type link struct {
	index uint32
	channel.Interface
}

// decodeLink reads an RTM_NEWLINK of an Ethernet interface.
func decodeLink(m rtnl.Message) (l link, ok bool) {
	attrs := rtnl.Body(m.Data, unix.SizeofIfInfomsg)
	if m.Type != unix.RTM_NEWLINK || attrs == nil || m.Data[0] != unix.AF_UNSPEC {
		return l, false
	}
	l.index = rtnl.U32(m.Data[4:])
	l.Name = string(rtnl.CString(rtnl.Attr(attrs, unix.IFLA_IFNAME)))
	mac := rtnl.Attr(attrs, unix.IFLA_ADDRESS)
	l.MAC = net.HardwareAddr(mac).String()
	stats := rtnl.Attr(attrs, unix.IFLA_STATS64) // a struct rtnl_link_stats64
	at := func(i int) uint64 { return rtnl.U64(rtnl.Body(stats, 8*i)) }
	l.RxPackets, l.TxPackets, l.RxBytes, l.TxBytes = at(0), at(1), at(2), at(3)
	return l, len(mac) == 6 && stats != nil
}

type queue struct {
	index uint32
	bytes uint64
}

const (
	tcRoot        = 0xffffffff // TC_H_ROOT
	tcaStatsQueue = 3          // TCA_STATS_QUEUE: u32 packets waiting, bytes waiting, drops, ...
)

// decodeQueue decodes the RTM_NEWQDISC of a root qdisc, whose backlog includes that of its children.
func decodeQueue(m rtnl.Message) (q queue, ok bool) {
	attrs := rtnl.Body(m.Data, rtnl.SizeofTraffic)
	if m.Type != unix.RTM_NEWQDISC || attrs == nil || rtnl.U32(m.Data[12:]) != tcRoot {
		return q, false
	}
	q.index = rtnl.U32(m.Data[4:])
	q.bytes = uint64(rtnl.U32(rtnl.Body(rtnl.Attr(rtnl.Attr(attrs, unix.TCA_STATS2), tcaStatsQueue), 4)))
	return q, true
}
