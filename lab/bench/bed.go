package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/host/counters"
	"sluice/internal/host/kernel"
	"sluice/internal/host/netdev"
)

// Parameters of the test bed. Rates are on the wire: with preamble, interframe gap and checksum.
const (
	linkBits   = 100e6 // of the uplink
	uplinkFIFO = 128 << 10
	uplinkDev  = "up0"
	sinkNS     = "rx"
	sinkAddr   = "10.9.255.254"
	sinkMAC    = "02:00:00:00:ff:fe"
	sinkListen = sinkAddr + ":5000"
	delayDev   = "delay0"
	guestDev   = "net0" // in each guest, above its NIC, in the place of a bond or net_failover device
)

// bed is the network: guests g1.. behind the bridge, the uplink, and the sink behind it.
type bed struct {
	n int
	*counted
}

func guestNS(i int) string   { return fmt.Sprintf("g%d", i+1) }
func guestPort(i int) string { return fmt.Sprintf("tap%d", i+1) }
func guestIP(i int) net.IP   { return net.IPv4(10, 9, byte((i+1)>>8), byte(i+1)).To4() }
func guestMAC(i int) string  { return fmt.Sprintf("02:00:00:00:%02x:%02x", (i+1)>>8, (i+1)&255) }

// guestOf returns the guest that has the address.
func guestOf(ip net.IP) int { b := ip.To4(); return int(b[2])<<8 + int(b[3]) - 1 }

// newBed creates the network with n guests. rtt delays the return path; below 1 ms there is no delay.
func newBed(n int, rtt time.Duration) (*bed, error) {
	b := &bed{n: n}
	if err := newBridge("br0", uplinkDev, sinkNS); err != nil {
		return nil, err
	}
	if err := inNS(sinkNS, func() error {
		if err := quiet(); err != nil {
			return err
		}
		if err := sysctl("net.ipv4.tcp_rmem", "4096 131072 16777216"); err != nil {
			return err
		}
		return batch("ip", "addr add "+sinkAddr+"/16 dev eth0", "link set eth0 up")
	}); err != nil {
		return nil, err
	}
	if err := b.setLink(linkBits, "add"); err != nil {
		return nil, err
	}
	for i := range n {
		if err := b.addGuest(i); err != nil {
			return nil, err
		}
	}
	if rtt >= time.Millisecond {
		if err := b.delay(rtt); err != nil {
			return nil, err
		}
	}
	var err error
	b.counted, err = countPorts(n, guestPort)
	return b, err
}

// newBridge creates a bridge with an uplink to a namespace.
func newBridge(bridge, uplink, ns string) error {
	if err := quiet(); err != nil {
		return err
	}
	return batch("ip",
		"link set lo up",
		"link add "+bridge+" type bridge mcast_snooping 0 forward_delay 0",
		"link set "+bridge+" up",
		"netns add "+ns,
		"link add "+uplink+" type veth peer name eth0 address "+sinkMAC+" netns "+ns,
		"link set "+uplink+" master "+bridge+" up")
}

// quiet keeps the kernel from sending packets of its own, and from caching metrics of earlier connections.
func quiet() error {
	for _, name := range []string{"net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.default.disable_ipv6", "net.ipv4.tcp_no_metrics_save"} {
		if err := sysctl(name, "1"); err != nil {
			return err
		}
	}
	return nil
}

// setLink sets the rate of the uplink in bit/s.
func (b *bed) setLink(bits float64, verb string) error {
	class := fmt.Sprintf("class %s dev %s parent 1: classid 1:1 htb rate %.0fbit ceil %.0fbit burst 8k cburst 8k quantum 60000 overhead 24",
		verb, uplinkDev, bits, bits)
	if verb != "add" {
		return batch("tc", class)
	}
	return batch("tc", "qdisc add dev "+uplinkDev+" root handle 1: htb default 1", class,
		fmt.Sprintf("qdisc add dev %s parent 1:1 handle 10: bfifo limit %d", uplinkDev, uplinkFIFO))
}

func (b *bed) addGuest(i int) error {
	ns, port := guestNS(i), guestPort(i)
	err := batch("ip",
		"netns add "+ns,
		"link add "+port+" type veth peer name eth0 address "+guestMAC(i)+" netns "+ns,
		"link set "+port+" master br0 up")
	if err != nil {
		return err
	}
	return inNS(ns, func() error {
		if err := quiet(); err != nil {
			return err
		}
		// One packet at a time: a 64 KB burst would take 5 ms on this link.
		return batch("ip",
			"link set eth0 gso_max_segs 1 up",
			"link add "+guestDev+" link eth0 type macvlan mode passthru",
			fmt.Sprintf("addr add %s/16 dev %s", guestIP(i), guestDev),
			"link set "+guestDev+" gso_max_segs 1 up",
			"neigh replace "+sinkAddr+" lladdr "+sinkMAC+" dev "+guestDev+" nud permanent")
	})
}

// counted is the kernel, as asked for what the ports of guests have received.
type counted struct {
	host   *kernel.Host
	reader *counters.Reader
	index  map[int]int // guest by its port
	links  []netdev.LinkStats
}

// countPorts finds the ports of n guests.
func countPorts(n int, port func(i int) string) (*counted, error) {
	c := &counted{index: map[int]int{}}
	var err error
	if c.host, err = kernel.New(kernel.Options{}); err != nil {
		return nil, err
	}
	if c.reader, err = c.host.NewCounterReader(); err != nil {
		return nil, err
	}
	for i := range n {
		dev, err := net.InterfaceByName(port(i))
		if err != nil {
			return nil, err
		}
		c.index[dev.Index] = i
	}
	return c, nil
}

// sent is what a guest has sent so far, as counted by the host.
type sent struct{ bytes, packets uint64 }

// counters fills in what each guest has sent.
func (c *counted) counters(out []sent) error {
	var err error
	if c.links, err = c.reader.Links(context.Background(), c.links[:0]); err != nil {
		return err
	}
	for i := range c.links {
		if g, ok := c.index[c.links[i].Index]; ok && g < len(out) {
			out[g] = sent{c.links[i].RxBytes, c.links[i].RxPackets}
		}
	}
	return nil
}

// measured sets the rates of senders from what they had sent before and have sent since.
func measured(senders []bandwidth.Sender, last, now []sent, since time.Duration) {
	for i := range senders {
		s, bytes, packets := &senders[i], now[i].bytes-last[i].bytes, now[i].packets-last[i].packets
		s.Bits, s.Packets, s.Known = float64(8*(bytes+24*packets))/since.Seconds(), float64(packets)/since.Seconds(), true
	}
}
