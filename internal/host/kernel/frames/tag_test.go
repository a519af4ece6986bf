package frames

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
)

var (
	here4, there4 = netip.MustParseAddrPort("192.0.2.1:40000"), netip.MustParseAddrPort("192.0.2.7:9179")
	here6, there6 = netip.MustParseAddrPort("[2001:db8::1]:40000"), netip.MustParseAddrPort("[2001:db8::7]:9179")
)

// segment is a frame with the start of a TCP segment, and a tag if vlan is not 0.
func segment(from, to netip.AddrPort, vlan int, options int) []byte {
	be := binary.BigEndian
	b := make([]byte, 12, 80)
	if vlan != 0 {
		b = be.AppendUint16(be.AppendUint16(b, unix.ETH_P_8021Q), uint16(5<<13|vlan)) // with a priority
	}
	if from.Addr().Is4() {
		ip := make([]byte, 20+options)
		ip[0], ip[9] = byte(0x40|len(ip)/4), unix.IPPROTO_TCP
		copy(ip[12:], from.Addr().AsSlice())
		copy(ip[16:], to.Addr().AsSlice())
		b = append(be.AppendUint16(b, unix.ETH_P_IP), ip...)
	} else {
		ip := make([]byte, 40)
		ip[0], ip[6] = 0x60, unix.IPPROTO_TCP
		copy(ip[8:], from.Addr().AsSlice())
		copy(ip[24:], to.Addr().AsSlice())
		b = append(be.AppendUint16(b, unix.ETH_P_IPV6), ip...)
	}
	return append(be.AppendUint16(be.AppendUint16(b, from.Port()), to.Port()), 0, 0, 0, 0)
}

func TestTCPBetween(t *testing.T) {
	mapped := netip.AddrPortFrom(netip.AddrFrom16(here4.Addr().As16()), here4.Port())
	udp := segment(here4, there4, 0, 0)
	udp[14+9] = unix.IPPROTO_UDP
	for name, c := range map[string]struct {
		frame    []byte
		from, to netip.AddrPort
		vlan     int
		ok       bool
	}{
		"IPv4":             {segment(here4, there4, 0, 0), here4, there4, 0, true},
		"options":          {segment(here4, there4, 0, 8), here4, there4, 0, true},
		"mapped":           {segment(here4, there4, 0, 0), mapped, there4, 0, true},
		"VLAN":             {segment(here4, there4, 20, 0), here4, there4, 20, true},
		"IPv6":             {segment(here6, there6, 0, 0), here6, there6, 0, true},
		"IPv6, VLAN":       {segment(here6, there6, 4094, 0), here6, there6, 4094, true},
		"other way":        {segment(there4, here4, 0, 0), here4, there4, 0, false},
		"other port":       {segment(netip.AddrPortFrom(here4.Addr(), 1), there4, 0, 0), here4, there4, 0, false},
		"other peer":       {segment(here4, netip.AddrPortFrom(here4.Addr(), 9179), 0, 0), here4, there4, 0, false},
		"UDP":              {udp, here4, there4, 0, false},
		"nothing":          {nil, here4, there4, 0, false},
		"no ports":         {segment(here4, there4, 0, 0)[:36], here4, there4, 0, false},
		"no IP":            {segment(here4, there4, 20, 0)[:20], here4, there4, 20, false},
		"an odd IP header": {append(segment(here4, there4, 0, 0)[:14], 0x4f), here4, there4, 0, false},
	} {
		if vlan, ok := tcpBetween(c.frame, c.from, c.to); ok != c.ok || ok && vlan != c.vlan {
			t.Errorf("%s: %d, %v", name, vlan, ok)
		}
	}
}

// A tag that the NIC inserts is beside the frame.
func TestAuxTag(t *testing.T) {
	aux := make([]byte, 20)
	message := func() []byte {
		h := unix.Cmsghdr{Level: unix.SOL_PACKET, Type: unix.PACKET_AUXDATA}
		h.SetLen(unix.CmsgLen(len(aux)))
		b := make([]byte, unix.CmsgSpace(len(aux)))
		copy(b, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.SizeofCmsghdr))
		copy(b[unix.CmsgLen(0):], aux)
		return b
	}
	binary.NativeEndian.PutUint16(aux[16:], 5<<13|20)
	if got := auxTag(message()); got != 0 {
		t.Errorf("a tag that does not count is %d", got)
	}
	binary.NativeEndian.PutUint32(aux, unix.TP_STATUS_VLAN_VALID)
	if got := auxTag(message()); got != 20 {
		t.Errorf("%d, want 20", got)
	}
	if got := auxTag([]byte{1, 2, 3}); got != 0 {
		t.Errorf("%d of nothing", got)
	}
}

// What leaves is seen with its tag; what comes in is not.
func TestLeaving(t *testing.T) {
	s := pair(t)
	l, err := NewLeaving("near")
	must(t, err)
	defer l.Close()
	send := func(s *Space, name string, b []byte) {
		out, err := NewSender(s, name)
		must(t, err)
		must(t, out.send(b))
		must(t, out.Close())
	}
	send(s, "lent", segment(here4, there4, 30, 0))
	if vlan, ok, err := l.TCP(t.Context(), here4, there4, 200*time.Millisecond); ok || err != nil {
		t.Errorf("what comes in: VLAN %d, %v, %v", vlan, ok, err)
	}
	send(nil, "near", segment(here6, there6, 0, 0))
	send(nil, "near", segment(here4, there4, 20, 0))
	vlan, ok, err := l.TCP(kerneltest.Soon(t), here4, there4, time.Minute)
	if vlan != 20 || !ok || err != nil {
		t.Errorf("VLAN %d, %v, %v", vlan, ok, err)
	}
	if _, err := NewLeaving("none"); err == nil {
		t.Error("an interface that is not there can be watched")
	}
}
