package vpf

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/channel"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// ask parses and judges a request.
func ask(a *channel.Attach, v *model.VirtualVF, g *model.GuestPolicy) (model.VFGrant, error) {
	r, err := ParseRequest(a)
	if err != nil {
		return model.VFGrant{}, err
	}
	return Judge(&r, v, g)
}

// What a guest gets for each request, or why it is denied.
func TestJudge(t *testing.T) {
	own, more := model.MAC{0x52, 0x54, 0, 0, 0, 1}, model.MAC{0x52, 0x54, 0, 0, 0, 2}
	addresses := func(list ...string) (out []netip.Addr) {
		for _, a := range list {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	yes, no := true, false
	wide := model.GuestPolicy{
		Attach: true, MACs: []string{"02:*"}, VLANs: vlans("10-20"), NoSpoofCheck: true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Guarantee: model.Rate{Bits: 1e9}, Limit: model.Rate{Bits: 2e9}, Weight: 4,
	}
	plain := model.GuestPolicy{Attach: true}
	limited := model.PortPolicy{SLA: model.SLA{Limit: model.Rate{Bits: 2e9}}} // the result of an empty request under wide
	for _, c := range []struct {
		name   string
		policy model.GuestPolicy
		host   model.PortPolicy
		ask    channel.Attach
		code   string
		mac    model.MAC
		want   model.PortPolicy
	}{
		{name: "nothing", policy: plain},
		{name: "refused", policy: model.GuestPolicy{}, code: channel.CodeDenied},
		{name: "set down", policy: wide, host: model.PortPolicy{Link: model.LinkDown}, code: channel.CodeDenied},
		{name: "up is no more than auto", policy: plain, ask: channel.Attach{Link: "up"}},
		{name: "link down", policy: plain, ask: channel.Attach{Link: "down"}, want: model.PortPolicy{Link: model.LinkDown}},
		{name: "link sideways", policy: plain, ask: channel.Attach{Link: "sideways"}, code: channel.CodeInvalid},

		{name: "own MAC", policy: plain, ask: channel.Attach{MAC: own.String()}},
		{
			name: "MAC that the host set", policy: plain, host: model.PortPolicy{MACs: []model.MAC{more}}, ask: channel.Attach{MAC: more.String()},
			mac: more, want: model.PortPolicy{MACs: []model.MAC{more}},
		},
		{
			name: "MAC of the pattern", policy: wide, ask: channel.Attach{MAC: "02:00:00:00:00:01"}, mac: model.MAC{2, 0, 0, 0, 0, 1},
			want: limited,
		},
		{name: "MAC beyond the pattern", policy: wide, ask: channel.Attach{MAC: "06:00:00:00:00:01"}, code: channel.CodeDenied},
		{name: "MAC without a pattern", policy: plain, ask: channel.Attach{MAC: "02:00:00:00:00:01"}, code: channel.CodeDenied},
		{
			name: "multicast MAC", policy: model.GuestPolicy{Attach: true, MACs: []string{"*"}}, ask: channel.Attach{MAC: "03:00:00:00:00:01"},
			code: channel.CodeInvalid,
		},
		{
			name: "no MAC", policy: model.GuestPolicy{Attach: true, MACs: []string{"*"}}, ask: channel.Attach{MAC: "00:00:00:00:00:00"},
			code: channel.CodeInvalid,
		},
		{name: "text for a MAC", policy: wide, ask: channel.Attach{MAC: "02"}, code: channel.CodeInvalid},

		{name: "VLAN", policy: wide, ask: channel.Attach{VLAN: 15}, want: model.PortPolicy{VLAN: 15, SLA: limited.SLA}},
		{name: "VLAN beyond", policy: wide, ask: channel.Attach{VLAN: 21}, code: channel.CodeDenied},
		{name: "VLAN below", policy: wide, ask: channel.Attach{VLAN: -1}, code: channel.CodeDenied},
		{
			name: "VLAN that is none", policy: model.GuestPolicy{Attach: true, VLANs: vlans("1-4094")}, ask: channel.Attach{VLAN: 4095},
			code: channel.CodeDenied,
		},
		{name: "VLAN without policy", policy: plain, ask: channel.Attach{VLAN: 15}, code: channel.CodeDenied},
		{name: "VLAN of the host stays", policy: plain, host: model.PortPolicy{VLAN: 7}, want: model.PortPolicy{VLAN: 7}},
		{name: "VLAN of the host", policy: plain, host: model.PortPolicy{VLAN: 7}, ask: channel.Attach{VLAN: 7}, want: model.PortPolicy{VLAN: 7}},
		{
			name: "VLAN of the host as a trunk", policy: plain, host: model.PortPolicy{VLAN: 7}, ask: channel.Attach{Trunk: "7"},
			code: channel.CodeDenied,
		},
		{
			name: "part of the host's trunk", policy: plain, host: model.PortPolicy{Trunk: vlans("30-40")}, ask: channel.Attach{Trunk: "31,35-36"},
			want: model.PortPolicy{Trunk: vlans("31,35-36")},
		},
		{
			name: "one of the host's trunk", policy: plain, host: model.PortPolicy{Trunk: vlans("30-40")}, ask: channel.Attach{VLAN: 31},
			want: model.PortPolicy{VLAN: 31},
		},
		{
			name: "more than the host's trunk", policy: plain, host: model.PortPolicy{Trunk: vlans("30-40")}, ask: channel.Attach{Trunk: "40-41"},
			code: channel.CodeDenied,
		},
		{name: "trunk", policy: wide, ask: channel.Attach{Trunk: "10-12,14"}, want: model.PortPolicy{Trunk: vlans("10-12,14"), SLA: limited.SLA}},
		{name: "trunk that is partly beyond", policy: wide, ask: channel.Attach{Trunk: "10,19-21"}, code: channel.CodeDenied},
		{name: "both", policy: wide, ask: channel.Attach{VLAN: 10, Trunk: "11"}, code: channel.CodeInvalid},
		{name: "trunk that is none", policy: wide, ask: channel.Attach{Trunk: "x"}, code: channel.CodeInvalid},
		{
			name: "too many ranges", policy: wide, ask: channel.Attach{Trunk: "10,12,14,16,18,20,10,12,14"},
			want: model.PortPolicy{Trunk: vlans("10,12,14,16,18,20"), SLA: limited.SLA},
		},

		{name: "no spoof check", policy: wide, ask: channel.Attach{SpoofChk: &no}, want: model.PortPolicy{NoSpoofCheck: true, SLA: limited.SLA}},
		{name: "no spoof check without policy", policy: plain, ask: channel.Attach{SpoofChk: &no}, code: channel.CodeDenied},
		{
			name: "spoof check where the host has none", policy: plain, host: model.PortPolicy{NoSpoofCheck: true},
			ask: channel.Attach{SpoofChk: &yes},
		},
		{
			name: "no spoof check, as the host", policy: plain, host: model.PortPolicy{NoSpoofCheck: true}, ask: channel.Attach{SpoofChk: &no},
			want: model.PortPolicy{NoSpoofCheck: true},
		},
		{name: "ARP checked", policy: plain, ask: channel.Attach{CheckARP: &yes}, want: model.PortPolicy{CheckARP: true}},
		{
			name: "ARP no longer checked", policy: wide, host: model.PortPolicy{CheckARP: true}, ask: channel.Attach{CheckARP: &no},
			code: channel.CodeDenied,
		},
		{name: "isolated", policy: plain, ask: channel.Attach{Isolated: &yes}, want: model.PortPolicy{Isolated: true}},
		{
			name: "isolated no longer", policy: wide, host: model.PortPolicy{Isolated: true}, ask: channel.Attach{Isolated: &no},
			code: channel.CodeDenied,
		},

		{
			name: "addresses", policy: plain, ask: channel.Attach{Addresses: []string{"10.0.0.1", "fd00::1"}},
			want: model.PortPolicy{Addresses: addresses("10.0.0.1", "fd00::1")},
		},
		{
			name: "addresses of the host stay", policy: wide, host: model.PortPolicy{Addresses: addresses("10.0.0.1")},
			want: model.PortPolicy{Addresses: addresses("10.0.0.1"), SLA: limited.SLA},
		},
		{
			name: "one of the host's addresses", policy: plain, host: model.PortPolicy{Addresses: addresses("10.0.0.1", "10.0.0.2")},
			ask: channel.Attach{Addresses: []string{"10.0.0.2"}}, want: model.PortPolicy{Addresses: addresses("10.0.0.2")},
		},
		{
			name: "another than the host's addresses", policy: wide, host: model.PortPolicy{Addresses: addresses("10.0.0.1")},
			ask: channel.Attach{Addresses: []string{"10.0.0.2"}}, code: channel.CodeDenied,
		},
		{name: "address beyond", policy: wide, ask: channel.Attach{Addresses: []string{"11.0.0.1"}}, code: channel.CodeDenied},
		{
			name: "address in IPv6's clothes", policy: plain, ask: channel.Attach{Addresses: []string{"::ffff:10.0.0.1"}},
			code: channel.CodeInvalid,
		},
		{name: "broadcast address", policy: plain, ask: channel.Attach{Addresses: []string{"255.255.255.255"}}, code: channel.CodeInvalid},
		{name: "multicast address", policy: plain, ask: channel.Attach{Addresses: []string{"ff02::1"}}, code: channel.CodeInvalid},
		{name: "address with a zone", policy: plain, ask: channel.Attach{Addresses: []string{"fe80::1%eth0"}}, code: channel.CodeInvalid},
		{name: "address that is none", policy: plain, ask: channel.Attach{Addresses: []string{"10.0.0"}}, code: channel.CodeInvalid},
		{name: "too many addresses", policy: plain, ask: channel.Attach{Addresses: make([]string, 9)}, code: channel.CodeInvalid},

		{
			name: "guarantee", policy: wide, ask: channel.Attach{Guarantee: "1Gbit"},
			want: model.PortPolicy{SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}, Limit: model.Rate{Bits: 2e9}}},
		},
		{name: "guarantee beyond", policy: wide, ask: channel.Attach{Guarantee: "1001Mbit"}, code: channel.CodeDenied},
		{name: "guarantee of packets", policy: wide, ask: channel.Attach{Guarantee: "1kpps"}, code: channel.CodeDenied},
		{name: "guarantee without policy", policy: plain, ask: channel.Attach{Guarantee: "1bit"}, code: channel.CodeDenied},
		{name: "guarantee that is none", policy: wide, ask: channel.Attach{Guarantee: "0bit"}, code: channel.CodeInvalid},
		{
			name: "guarantee below the host's", policy: plain, host: model.PortPolicy{SLA: model.SLA{Guarantee: model.Rate{Bits: 2e9}}},
			ask: channel.Attach{Guarantee: "1Gbit"}, want: model.PortPolicy{SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}}},
		},
		{name: "guarantee above its limit", policy: wide, ask: channel.Attach{Guarantee: "1Gbit", Limit: "500Mbit"}, code: channel.CodeInvalid},
		{name: "limit", policy: plain, ask: channel.Attach{Limit: "1Gbit"}, want: model.PortPolicy{SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}}},
		{
			name: "limit of packets keeps that of bits", policy: wide, ask: channel.Attach{Limit: "1kpps"},
			want: model.PortPolicy{SLA: model.SLA{Limit: model.Rate{Bits: 2e9, Packets: 1000}}},
		},
		{name: "limit beyond", policy: wide, ask: channel.Attach{Limit: "3Gbit"}, code: channel.CodeDenied},
		{
			name: "limit above the host's", policy: plain, host: model.PortPolicy{SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}},
			ask: channel.Attach{Limit: "2Gbit"}, code: channel.CodeDenied,
		},
		{
			name: "limit of the host stays", policy: wide, host: model.PortPolicy{SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}},
			want: model.PortPolicy{SLA: model.SLA{Limit: model.Rate{Bits: 1e9}}},
		},
		{name: "rate that is none", policy: plain, ask: channel.Attach{Limit: "99999999999999999999Gbit"}, code: channel.CodeInvalid},
		{
			name: "weight", policy: wide, ask: channel.Attach{Weight: 4},
			want: model.PortPolicy{SLA: model.SLA{Limit: model.Rate{Bits: 2e9}, Weight: 4}},
		},
		{name: "weight beyond", policy: wide, ask: channel.Attach{Weight: 4.1}, code: channel.CodeDenied},
		{name: "weight without policy", policy: plain, ask: channel.Attach{Weight: 1.1}, code: channel.CodeDenied},
		{
			name: "weight above the host's", policy: plain, host: model.PortPolicy{SLA: model.SLA{Weight: 0.5}},
			ask: channel.Attach{Weight: 1}, code: channel.CodeDenied,
		},
		{
			name: "weight of the host", policy: plain, host: model.PortPolicy{SLA: model.SLA{Weight: 0.5}},
			ask: channel.Attach{Weight: 0.5}, want: model.PortPolicy{SLA: model.SLA{Weight: 0.5}},
		},
		{name: "weight below", policy: wide, ask: channel.Attach{Weight: -1}, code: channel.CodeDenied},
		{name: "next to no weight", policy: wide, ask: channel.Attach{Weight: 5e-324}, code: channel.CodeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, err := ask(&c.ask, &model.VirtualVF{MAC: own, Port: c.host}, &c.policy)
			if code(err) != c.code || err != nil && c.code == "" {
				t.Fatalf("have %v, want %q", err, c.code)
			}
			have.Port.SLA.Source = ""
			want := model.VFGrant{MAC: c.mac, Port: c.want, Asked: have.Asked}
			if diff := cmp.Diff(want, have, samePolicy); c.code == "" && diff != "" {
				t.Error(diff)
			}
			if v := (model.VirtualVF{MAC: own, Port: c.host, Grant: &have}); c.code == "" && Beyond(&v, &c.policy) != "" {
				t.Errorf("granted, and said to be beyond what is granted: %s", Beyond(&v, &c.policy))
			}
		})
	}
}

// Guarantees inside a virtual PF are limited by its own guarantee, and the error shows the sum.
func TestAdmit(t *testing.T) {
	p := vpftest.PF("a", "vpf0", 3)
	p.VFs[0].Port.SLA.Guarantee = bits(3e9)
	p.VFs[1].Grant = &model.VFGrant{Port: model.PortPolicy{SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9, Packets: 10}}}}
	whole := model.Rate{Bits: 5e9, Packets: 20}
	if err := Admit(&p, 2, model.Rate{Bits: 1e9, Packets: 10}, whole); err != nil {
		t.Error(err)
	}
	if err := Admit(&p, 1, bits(2e9), whole); err != nil {
		t.Errorf("instead of what it had: %v", err)
	}
	for want, asked := range map[string]model.Rate{
		"asked: 2Gbit; other VFs have: 4Gbit; virtual PF vpf0 is guaranteed: 5Gbit": bits(2e9),
		"asked: 11pps; other VFs have: 10pps; virtual PF vpf0 is guaranteed: 20pps": {Packets: 11},
	} {
		if err := Admit(&p, 2, asked, whole); code(err) != "denied" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := Admit(&p, 2, bits(1), model.Rate{}); code(err) != "denied" {
		t.Errorf("of a virtual PF that is guaranteed nothing: %v", err)
	}
}

// A guest may limit what its VF receives further than the host does, but never less.
func TestJudgeReceive(t *testing.T) {
	for _, c := range []struct{ host, asked, want, code string }{
		{"", "", "", ""},
		{"", "10Mbit", "10Mbit", ""},
		{"1Gbit", "", "1Gbit", ""},
		{"1Gbit", "10Mbit 5kpps", "10Mbit 5kpps", ""},
		{"1Gbit", "2Gbit", "", channel.CodeDenied},
		{"", "much", "", channel.CodeInvalid},
	} {
		var host model.Rate
		if c.host != "" {
			var err error
			if host, err = model.ParseRate(c.host); err != nil {
				t.Fatal(err)
			}
		}
		v := &model.VirtualVF{Port: model.PortPolicy{SLA: model.SLA{Receive: host}}}
		grant, err := ask(&channel.Attach{Receive: c.asked}, v, &model.GuestPolicy{Attach: true})
		if have := grant.Port.SLA.Receive.String(); code(err) != c.code || c.code == "" && (err != nil || have != c.want) {
			t.Errorf("%+v: %q, %v", c, have, err)
		}
	}
}
