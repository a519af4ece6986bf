package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// count counts the frames received with one mark and one VLAN tag.
type count struct {
	Mark    string `json:"mark"`
	VLAN    int    `json:"vlan,omitempty"`
	Src     string `json:"src"` // of the latest frame
	Frames  int    `json:"frames"`
	Bytes   int    `json:"bytes"`
	FirstNs int64  `json:"first_ns"`
	LastNs  int64  `json:"last_ns"`
}

// receive prints all counts as one line of JSON, at the start and whenever they have changed, at most ten times a second.
func receive(dev *net.Interface) error {
	fd, err := open(dev)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var (
		counts  = []*count{}
		changed = true
		printed time.Time
		buf     = make([]byte, 65536)
		oob     = make([]byte, 256)
	)
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, 0)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil:
			return err
		default:
			vlan, at := ancillary(oob[:oobn])
			if add(&counts, buf[:n], vlan, at) {
				changed = true
			}
		}
		if changed && time.Since(printed) >= 100*time.Millisecond {
			if err := json.NewEncoder(os.Stdout).Encode(counts); err != nil {
				return err
			}
			changed, printed = false, time.Now()
		}
	}
}

// open returns a socket that receives all incoming frames of the device, and no outgoing ones.
func open(dev *net.Interface) (int, error) {
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return 0, err
	}
	mreq := unix.PacketMreq{Ifindex: int32(dev.Index), Type: unix.PACKET_MR_PROMISC}
	for _, err := range []error{
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1), // where the kernel reports a tag that it has stripped
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1), // arrival: this program may read much later on a busy machine
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
		unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index}),
	} {
		if err != nil {
			unix.Close(fd)
			return 0, err
		}
	}
	return fd, nil
}

// ancillary returns the VLAN tag that the kernel stripped from the frame, and when the frame arrived, in nanoseconds.
func ancillary(oob []byte) (vlan int, at int64) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, 0
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA &&
			len(m.Data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
			if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 {
				vlan = int(aux.Vlan_tci & 0xfff)
			}
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS &&
			len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
			at = (*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Nano()
		}
	}
	return vlan, at
}

// add counts a frame that has a mark and arrived at that time.
func add(counts *[]*count, frame []byte, vlan int, at int64) bool {
	i := bytes.Index(frame, []byte(magic))
	if i < 14 {
		return false
	}
	rest := frame[i+len(magic):]
	end := bytes.IndexByte(rest, ';')
	if end < 0 {
		return false
	}
	if vlan == 0 && binary.BigEndian.Uint16(frame[12:]) == unix.ETH_P_8021Q {
		vlan = int(binary.BigEndian.Uint16(frame[14:]) & 0xfff)
	}
	c := find(counts, string(rest[:end]), vlan)
	if c.Frames == 0 {
		c.FirstNs = at
	}
	c.Frames++
	c.Bytes += len(frame)
	c.LastNs = at
	c.Src = net.HardwareAddr(frame[6:12]).String()
	return true
}

func find(counts *[]*count, mark string, vlan int) *count {
	for _, c := range *counts {
		if c.Mark == mark && c.VLAN == vlan {
			return c
		}
	}
	c := &count{Mark: mark, VLAN: vlan}
	*counts = append(*counts, c)
	return c
}
