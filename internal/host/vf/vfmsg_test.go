package vf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// pfAnswer builds a driver's answer for one PF in the form of rtnl_fill_vfinfo.
func pfAnswer(vfs ...vfState) rtnl.Message {
	r := rtnl.NewRequest(unix.RTM_NEWLINK, 0, rtnl.Link(unix.AF_UNSPEC, 4))
	r.String(unix.IFLA_IFNAME, "pf0").U32(unix.IFLA_NUM_VF, uint32(len(vfs)))
	r.Nest(unix.IFLA_VFINFO_LIST, func(r *rtnl.Request) {
		for _, v := range vfs {
			r.Nest(unix.IFLA_VF_INFO, func(r *rtnl.Request) { fillVF(r, v) })
		}
	})
	return rtnl.Message{Type: unix.RTM_NEWLINK, Data: r.Message().Data}
}

func fillVF(r *rtnl.Request, v vfState) {
	idx := uint32(v.Index)
	tri := map[model.Tri]uint32{model.Unknown: ^uint32(0), model.No: 0, model.Yes: 1}
	r.Bytes(unix.IFLA_VF_MAC, append(sysif.Words(idx), changeMAC(v.MAC).value...))
	r.Bytes(unix.IFLA_VF_BROADCAST, make([]byte, 32))
	r.Bytes(unix.IFLA_VF_VLAN, sysif.Words(idx, uint32(v.VLAN), 3))
	r.Bytes(unix.IFLA_VF_RATE, sysif.Words(idx, megabits(v.MinTxRate), megabits(v.MaxTxRate)))
	r.Bytes(unix.IFLA_VF_TX_RATE, sysif.Words(idx, megabits(v.MaxTxRate)))
	r.Bytes(unix.IFLA_VF_SPOOFCHK, sysif.Words(idx, tri[v.SpoofCheck]))
	r.Bytes(unix.IFLA_VF_TRUST, sysif.Words(idx, tri[v.Trust]))
	r.Nest(unix.IFLA_VF_STATS, func(r *rtnl.Request) {
		u64 := func(t uint16, n uint64) { r.Bytes(t, append(sysif.Words(uint32(n)), sysif.Words(uint32(n>>32))...)) }
		u64(unix.IFLA_VF_STATS_RX_PACKETS, v.Counters.RxPackets)
		u64(unix.IFLA_VF_STATS_TX_PACKETS, v.Counters.TxPackets)
		u64(unix.IFLA_VF_STATS_RX_BYTES, v.Counters.RxBytes)
		u64(unix.IFLA_VF_STATS_TX_BYTES, v.Counters.TxBytes)
		u64(unix.IFLA_VF_STATS_BROADCAST, 99)
		u64(unix.IFLA_VF_STATS_RX_DROPPED, v.Counters.RxDropped)
		u64(unix.IFLA_VF_STATS_TX_DROPPED, v.Counters.TxDropped)
	})
}

func TestDecodeVFs(t *testing.T) {
	want := []vfState{
		{},
		{
			Index: 1, MAC: kerneltest.Guest, VLAN: 100, MinTxRate: 50e6, MaxTxRate: 2e9, SpoofCheck: model.Yes, Trust: model.No,
			Counters: netdev.Counters{RxPackets: 1, TxPackets: 2, RxBytes: 1 << 40, TxBytes: 4, RxDropped: 5, TxDropped: 6},
		},
		{Index: 2, SpoofCheck: model.No, Trust: model.Yes, MaxTxRate: 4e15},
	}
	got, err := decodeVFs(pfAnswer(want...))
	kerneltest.Must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got):", diff)
	}
	if _, err := decodeVFs(rtnl.Message{Type: unix.RTM_NEWLINK, Data: []byte{1}}); err == nil {
		t.Error("a cut-off answer was taken")
	}
}

func TestMegabits(t *testing.T) {
	for bits, want := range map[uint64]uint32{
		0: 0, 1: 1, 400_000: 1, 1_499_999: 1, 1_500_000: 2, 10_000_000_000: 10_000, 1 << 62: 1<<32 - 1,
	} {
		if got := megabits(bits); got != want {
			t.Errorf("%d bits/s: %d Mbit/s, want %d", bits, got, want)
		}
	}
}

// TestChangeRequest decodes requests as the kernel does.
func TestChangeRequest(t *testing.T) {
	for _, c := range []struct {
		change vfChange
		attr   uint16
		want   []byte // behind the index
		size   int    // of the whole struct
	}{
		{changeMAC(kerneltest.Guest), unix.IFLA_VF_MAC, kerneltest.Guest[:], 36},
		{changeVLAN(100), unix.IFLA_VF_VLAN, sysif.Words(100, 0), 12},
		{changeSpoofCheck(true), unix.IFLA_VF_SPOOFCHK, sysif.Words(1), 8},
		{changeTrust(false), unix.IFLA_VF_TRUST, sysif.Words(0), 8},
		{changeRates(0, 3e9), unix.IFLA_VF_RATE, sysif.Words(0, 3000), 12},
	} {
		attrs := rtnl.Body(c.change.request("pf0", 5).Message().Data, unix.SizeofIfInfomsg)
		if name := rtnl.CString(rtnl.Attr(attrs, unix.IFLA_IFNAME)); string(name) != "pf0" {
			t.Errorf("%s: for interface %q", c.change.what, name)
		}
		v := rtnl.Attr(rtnl.Attr(rtnl.Attr(attrs, unix.IFLA_VFINFO_LIST), unix.IFLA_VF_INFO), c.attr)
		if len(v) != c.size || rtnl.U32(v) != 5 || string(v[4:4+len(c.want)]) != string(c.want) {
			t.Errorf("%s: %x", c.change.what, v)
		}
	}
}

// FuzzDecode fuzzes the decoders of messages about VFs. The seeds are well-formed messages, and truncated ones that were once
// accepted.
func FuzzDecode(f *testing.F) {
	f.Add(uint16(unix.RTM_NEWLINK), pfAnswer(vfState{Index: 1, MAC: kerneltest.Guest, VLAN: 0xffff}).Data)
	leaf := devlinkRate{bus: "pci", dev: "0000:03:00.0", port: 7}
	f.Add(uint16(0x20), leaf.requests(0x20, Rates{Max: 400e9, Min: 1e9})[0].Message().Data)
	f.Add(uint16(36), []byte("\x00\x00\x00\xfa\x04\x00\x03\x00"))                      // a port index without a value
	f.Add(uint16(36), []byte("\x00\x00\x00\xfa\x04\x00\x80\x00\x06\x00M\x00\x04\x00")) // a VF number without a value
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		m := rtnl.Message{Type: typ, Data: data}
		states, err := decodeVFs(m)
		for _, v := range states {
			if v.VLAN < 0 || v.VLAN > 4095 || v.SpoofCheck < model.Unknown || v.SpoofCheck > model.Yes {
				t.Errorf("took an impossible VF: %+v", v)
			}
		}
		if n := len(AppendVFCounters(nil, m)); n != len(states) && err == nil {
			t.Errorf("counters of %d VFs, but %d VFs", n, len(states))
		}
		if r, ok := decodeDevlinkRate(m); ok && len(data) < unix.GENL_HDRLEN+len(r.bus)+len(r.dev)+8 {
			t.Errorf("took a rate out of nothing: %+v", r)
		}
		if p, ok := decodeDevlinkPort(m); ok && len(data) < unix.GENL_HDRLEN+len(p.bus)+len(p.dev)+12 {
			t.Errorf("took a port out of nothing: %+v", p)
		}
		_, _ = decodeEswitch(m)
	})
}
