// Frames sends and counts Ethernet frames as root on a machine can, bypassing all checks of its own kernel. It tests what a switch must
// and must not let through.
//
//	frames send DEV [flags]   sends frames that carry a mark
//	frames recv DEV           counts frames with marks, by mark and VLAN, until it is ended
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "frames:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: frames send|recv DEV [flags]")
	}
	dev, err := net.InterfaceByName(args[1])
	if err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	switch args[0] {
	case "send":
		f, err := parse(dev, args[2:])
		if err != nil {
			return err
		}
		return send(dev, f)
	case "recv":
		return receive(dev)
	}
	return fmt.Errorf("unknown command %s", args[0])
}

// frame describes what to send.
type frame struct {
	src, dst net.HardwareAddr
	sha      net.HardwareAddr // in ARP; nil: src
	sip, dip net.IP
	vlan     int
	inner    int // a second tag inside the first; 0: none
	arp      bool
	mark     string
	count    int
	pps      float64 // 0: as fast as possible
	size     int
}

func parse(dev *net.Interface, args []string) (f frame, err error) {
	flags := flag.NewFlagSet("send", flag.ContinueOnError)
	src := flags.String("src", dev.HardwareAddr.String(), "source MAC")
	dst := flags.String("dst", "ff:ff:ff:ff:ff:ff", "destination MAC")
	sip := flags.String("sip", "192.0.2.1", "source address, of ARP the sender's")
	dip := flags.String("dip", "192.0.2.2", "destination address, of ARP the one asked for")
	sha := flags.String("sha", "", "ARP: the sender's MAC inside, if not the source")
	flags.IntVar(&f.vlan, "vlan", 0, "802.1Q tag")
	flags.IntVar(&f.inner, "inner", 0, "a second tag inside the first")
	flags.BoolVar(&f.arp, "arp", false, "an ARP request instead of UDP; the mark follows it")
	flags.StringVar(&f.mark, "mark", "mark", "what the receiver counts it by: letters and digits")
	flags.IntVar(&f.count, "count", 1, "how many")
	flags.Float64Var(&f.pps, "pps", 0, "how many a second; 0: as fast as it goes")
	flags.IntVar(&f.size, "size", 100, "bytes of the frame, without its tags")
	if err := flags.Parse(args); err != nil {
		return f, err
	}
	if f.src, err = net.ParseMAC(*src); err != nil {
		return f, err
	}
	if f.dst, err = net.ParseMAC(*dst); err != nil {
		return f, err
	}
	f.sip, f.dip = net.ParseIP(*sip), net.ParseIP(*dip)
	if f.sip == nil || f.dip == nil {
		return f, fmt.Errorf("%s or %s is not an address", *sip, *dip)
	}
	if *sha != "" {
		f.sha, err = net.ParseMAC(*sha)
	}
	return f, err
}
