package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// magic precedes a mark, which ends with ";".
const magic = "sluice-lab:"

// bytes returns the frame as sent on the wire.
func (f frame) bytes() []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.BigEndian, v) } // writes to memory do not fail
	b.Write(f.dst)
	b.Write(f.src)
	for _, tag := range []int{f.vlan, f.inner} {
		if tag != 0 {
			put(uint16(unix.ETH_P_8021Q))
			put(uint16(tag))
		}
	}
	mark := []byte(magic + f.mark + ";")
	switch {
	case f.arp:
		put(uint16(unix.ETH_P_ARP))
		put([]uint16{1, unix.ETH_P_IP, 6<<8 | 4, 1})
		sha := f.sha
		if sha == nil {
			sha = f.src
		}
		b.Write(sha)
		b.Write(f.sip.To4())
		b.Write(make([]byte, 6))
		b.Write(f.dip.To4())
		b.Write(mark)
	default:
		room := max(f.size-14, 28+len(mark))
		put(uint16(unix.ETH_P_IP))
		b.Write(f.udp(room, mark))
	}
	if n := f.size - b.Len(); n > 0 {
		b.Write(make([]byte, n))
	}
	return b.Bytes()
}

// udp returns an IPv4 packet of size bytes.
func (f frame) udp(size int, mark []byte) []byte {
	p := make([]byte, size)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(p[2:], uint16(size))
	copy(p[12:], f.sip.To4())
	copy(p[16:], f.dip.To4())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(p[20:], 9)
	binary.BigEndian.PutUint16(p[22:], 9)
	binary.BigEndian.PutUint16(p[24:], uint16(size-20))
	copy(p[28:], mark)
	return p
}

func send(dev *net.Interface, f frame) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Ifindex: dev.Index}
	data := f.bytes()
	begin := time.Now()
	for i := range f.count {
		if f.pps > 0 {
			due := begin.Add(time.Duration(float64(i) / f.pps * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		err := unix.Sendto(fd, data, 0, to)
		for err == unix.ENOBUFS { // the queue is full: keep flooding
			time.Sleep(time.Millisecond)
			err = unix.Sendto(fd, data, 0, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
