package bridge

import (
	"context"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Announce broadcasts a RARP frame from mac out of an interface (a PF, or a bridge to reach all its ports), tagged if vlan is not
// 0, so that switches learn the location of mac.
//
// The frame leaves the interface as if sent by the host. A bridge learns only from frames that enter through its ports, so this
// changes none of its own entries, even when flooded through the bridge: PinFDB changes those, and Announce is for all other
// switches. (A frame entering a port as if from behind it would move even a static entry.) An external switch sees PF and VF
// behind the same port; it needs the announcement if mac was on another port or silent for a while.
func (h *Bridges) Announce(ctx context.Context, mac model.MAC, vlan int, via string) error {
	l, err := h.links.Link(ctx, via)
	if err == nil {
		err = SendFrame(l.Index, rarp(mac, vlan))
	}
	return sysif.Fail("announce "+mac.String()+" through", via, err)
}

// RARP header fields (RFC 903).
const (
	etherRARP      = 0x8035
	arpEthernet    = 1
	rarpAskReverse = 3
	minFrame       = 60 // without FCS
)

// rarp builds a broadcast that asks for the protocol address of mac. Switches learn from it and hosts ignore it: unlike ARP it
// needs no IP address and changes no neighbour tables.
func rarp(mac model.MAC, vlan int) []byte {
	f := make([]byte, 0, minFrame+4)
	f = append(f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	f = append(f, mac[:]...)
	be := binary.BigEndian
	if vlan != 0 {
		f = be.AppendUint16(f, unix.ETH_P_8021Q)
		f = be.AppendUint16(f, uint16(vlan))
	}
	f = be.AppendUint16(f, etherRARP)
	f = be.AppendUint16(f, arpEthernet)
	f = be.AppendUint16(f, unix.ETH_P_IP)
	f = append(f, 6, 4) // address lengths
	f = be.AppendUint16(f, rarpAskReverse)
	for range 2 { // sender and target
		f = append(f, mac[:]...)
		f = append(f, 0, 0, 0, 0)
	}
	return append(f, make([]byte, max(minFrame-len(f), 0))...)
}

// SendFrame sends an Ethernet frame out of an interface. It does not block: a full queue is an error.
func SendFrame(index int, frame []byte) error {
	const kind = unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(unix.AF_PACKET, kind, 0) // 0: receives nothing
	if err != nil {
		return fmt.Errorf("open packet socket: %w", err)
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: index})
}
