package frames

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Leaving sees what the host sends out of an interface.
type Leaving struct{ fd int }

// Sizes of what is read of a frame, and how long one read waits.
const (
	seenBytes  = 128
	seenWithin = 50 * time.Millisecond
)

// Offsets of the kernel's classic BPF extensions (linux/filter.h).
const (
	skfAdOff     = 0xfffff000 // SKF_AD_OFF
	skfAdPktType = 4          // SKF_AD_PKTTYPE
)

// NewLeaving opens a socket in the namespace of the process; Close closes it.
func NewLeaving(name string) (*Leaving, error) {
	n, err := index(name)
	l := &Leaving{fd: -1}
	if err == nil {
		l.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	}
	if err == nil {
		err = l.listen(n)
	}
	if err != nil {
		if l.fd >= 0 {
			err = errors.Join(err, unix.Close(l.fd))
		}
		return nil, fmt.Errorf("watch what leaves %s: %w", name, err)
	}
	return l, nil
}

func (l *Leaving) listen(n int) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_ABS | unix.BPF_B, K: skfAdOff + skfAdPktType},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PACKET_OUTGOING, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: seenBytes},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	tv := unix.NsecToTimeval(int64(seenWithin))
	if err := errors.Join(
		unix.SetsockoptSockFprog(l.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}),
		unix.SetsockoptInt(l.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)); err != nil {
		return err
	}
	all := uint16(unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8)
	return unix.Bind(l.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: n})
}

// Close closes the socket.
func (l *Leaving) Close() error { return unix.Close(l.fd) }

// TCP waits at most that long for a TCP segment between two addresses and returns its VLAN tag, 0 for none; ok is false if none left.
func (l *Leaving) TCP(ctx context.Context, from, to netip.AddrPort, most time.Duration) (vlan int, ok bool, err error) {
	b, control := make([]byte, seenBytes), make([]byte, seenBytes)
	for until := time.Now().Add(most); ctx.Err() == nil && time.Now().Before(until); {
		n, nc, _, _, err := unix.Recvmsg(l.fd, b, control, 0)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, false, fmt.Errorf("read what leaves: %w", err)
		}
		tag, is := tcpBetween(b[:n], from, to)
		if !is {
			continue
		}
		if tag == 0 {
			tag = auxTag(control[:nc])
		}
		return tag, true, nil
	}
	return 0, false, ctx.Err()
}

// vlanMask is the part of a tag that is the VLAN's ID.
const vlanMask = 0xfff

// tcpBetween reports whether a frame is a TCP segment between two addresses, and the VLAN of a tag in the frame itself.
func tcpBetween(b []byte, from, to netip.AddrPort) (vlan int, ok bool) {
	const (
		ethernet = 14
		tag      = 4
		ip4, ip6 = 20, 40
	)
	if len(b) < ethernet {
		return 0, false
	}
	kind, b := binary.BigEndian.Uint16(b[12:]), b[ethernet:]
	if kind == unix.ETH_P_8021Q && len(b) >= tag {
		vlan, kind, b = int(binary.BigEndian.Uint16(b))&vlanMask, binary.BigEndian.Uint16(b[2:]), b[tag:]
	}
	var source, target []byte
	switch {
	case kind == unix.ETH_P_IP && len(b) >= ip4 && b[9] == unix.IPPROTO_TCP && len(b) >= int(b[0]&0xf)*4:
		source, target, b = b[12:16], b[16:20], b[int(b[0]&0xf)*4:]
	case kind == unix.ETH_P_IPV6 && len(b) >= ip6 && b[6] == unix.IPPROTO_TCP:
		source, target, b = b[8:24], b[24:40], b[ip6:]
	default:
		return 0, false
	}
	if len(b) < 4 {
		return 0, false
	}
	is := func(addr, port []byte, want netip.AddrPort) bool {
		a, _ := netip.AddrFromSlice(addr)
		return a == want.Addr().Unmap().WithZone("") && binary.BigEndian.Uint16(port) == want.Port()
	}
	return vlan, is(source, b, from) && is(target, b[2:], to)
}

// auxTag returns the VLAN of a tag that the kernel keeps beside the frame (struct tpacket_auxdata).
func auxTag(control []byte) int {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	const tci = 16 // the offset of tp_vlan_tci
	for i := range list {
		m := &list[i]
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= tci+2 &&
			binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			return int(binary.NativeEndian.Uint16(m.Data[tci:])) & vlanMask
		}
	}
	return 0
}
