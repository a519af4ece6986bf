package vpf

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/channel"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// A change of the host's settings of a VF in use never gives the guest more than it asked for, nor more than host policy's limit.
func TestHostSettingKeepsWhatWasAskedFor(t *testing.T) {
	yes, no := true, false
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	limit := func(n uint64) model.PortPolicy { return model.PortPolicy{SLA: model.SLA{Limit: bits(n)}} }
	for name, c := range map[string]struct {
		policy     model.GuestPolicy
		host, then model.PortPolicy
		ask        channel.Attach
		want       model.PortPolicy
	}{
		"a lower limit stays when the host lifts its own": {host: limit(50e6), ask: channel.Attach{Limit: "10Mbit"}, want: limit(10e6)},
		"a lower limit stays when the host raises its own": {
			host: limit(50e6), then: limit(80e6), ask: channel.Attach{Limit: "10Mbit"},
			want: limit(10e6),
		},
		"a limit goes down with that of the host": {
			host: limit(50e6), then: limit(5e6), ask: channel.Attach{Limit: "10Mbit"},
			want: limit(5e6),
		},
		"the limit of host policy stays":         {policy: model.GuestPolicy{Limit: bits(1e9)}, host: limit(50e6), want: limit(1e9)},
		"what nobody asked for follows the host": {host: limit(50e6), then: limit(80e6), want: limit(80e6)},
		"a limit of what is received": {
			host: model.PortPolicy{SLA: model.SLA{Receive: bits(9e6)}},
			ask:  channel.Attach{Receive: "1Mbit"}, want: model.PortPolicy{SLA: model.SLA{Receive: bits(1e6)}},
		},
		"a guarantee is no more than the limit": {
			policy: model.GuestPolicy{Guarantee: bits(1e9)},
			ask:    channel.Attach{Guarantee: "1Gbit"}, then: limit(5e6),
			want: model.PortPolicy{SLA: model.SLA{Guarantee: bits(5e6), Limit: bits(5e6)}},
		},
		"a lower guarantee": {
			host: model.PortPolicy{SLA: model.SLA{Guarantee: bits(9e6)}},
			then: model.PortPolicy{SLA: model.SLA{Guarantee: bits(8e6)}}, ask: channel.Attach{Guarantee: "1Mbit"},
			want: model.PortPolicy{SLA: model.SLA{Guarantee: bits(1e6)}},
		},
		"a part of a trunk": {
			host: model.PortPolicy{Trunk: vlans("10-20")},
			then: model.PortPolicy{Trunk: vlans("10-30")}, ask: channel.Attach{Trunk: "11-12"}, want: model.PortPolicy{Trunk: vlans("11-12")},
		},
		"one VLAN of a trunk": {
			host: model.PortPolicy{Trunk: vlans("10-20")},
			then: model.PortPolicy{Trunk: vlans("10-30")}, ask: channel.Attach{VLAN: 11}, want: model.PortPolicy{VLAN: 11},
		},
		"the host puts it into another VLAN": {
			policy: model.GuestPolicy{VLANs: vlans("10-20")}, then: model.PortPolicy{VLAN: 7},
			ask: channel.Attach{VLAN: 11}, want: model.PortPolicy{VLAN: 7},
		},
		"one of the host's addresses": {
			host: model.PortPolicy{Addresses: []netip.Addr{one, two}},
			ask:  channel.Attach{Addresses: []string{"10.0.0.1"}}, want: model.PortPolicy{Addresses: []netip.Addr{one}},
		},
		"another address than the host sets": {
			then: model.PortPolicy{Addresses: []netip.Addr{two}},
			ask:  channel.Attach{Addresses: []string{"10.0.0.1"}}, want: model.PortPolicy{Addresses: []netip.Addr{two}},
		},
		"the spoof check that it asked for": {
			host: model.PortPolicy{NoSpoofCheck: true}, ask: channel.Attach{SpoofChk: &yes},
			then: model.PortPolicy{NoSpoofCheck: true, CheckARP: true}, want: model.PortPolicy{CheckARP: true},
		},
		"the host switches its spoof check on": {
			policy: model.GuestPolicy{NoSpoofCheck: true}, host: model.PortPolicy{NoSpoofCheck: true},
			ask: channel.Attach{SpoofChk: &no},
		},
		"the check of ARP that it asked for": {
			host: model.PortPolicy{CheckARP: true}, ask: channel.Attach{CheckARP: &yes},
			want: model.PortPolicy{CheckARP: true},
		},
		"the host checks ARP": {
			then: model.PortPolicy{CheckARP: true}, ask: channel.Attach{CheckARP: &no},
			want: model.PortPolicy{CheckARP: true},
		},
		"the host checks ARP of who asked for nothing": {then: model.PortPolicy{CheckARP: true}, want: model.PortPolicy{CheckARP: true}},
		"the isolation that it asked for": {
			host: model.PortPolicy{Isolated: true}, ask: channel.Attach{Isolated: &yes},
			want: model.PortPolicy{Isolated: true},
		},
		"the host isolates it": {
			then: model.PortPolicy{Isolated: true}, ask: channel.Attach{Isolated: &no},
			want: model.PortPolicy{Isolated: true},
		},
		"what the host does not change stays as granted": {
			policy: model.GuestPolicy{VLANs: vlans("10-20"), Weight: 4},
			ask:    channel.Attach{VLAN: 11, Weight: 3}, then: model.PortPolicy{Isolated: true},
			want: model.PortPolicy{VLAN: 11, Isolated: true, SLA: model.SLA{Weight: 3}},
		},
		"the weight that it asked for, if the host's is more": {
			policy: model.GuestPolicy{Weight: 4}, ask: channel.Attach{Weight: 2},
			then: model.PortPolicy{SLA: model.SLA{Weight: 3}}, want: model.PortPolicy{SLA: model.SLA{Weight: 2}},
		},
		"the host's weight, if it asked for more, also for no more than 1": {
			ask: channel.Attach{Weight: 1}, then: model.PortPolicy{SLA: model.SLA{Weight: 0.5}},
			want: model.PortPolicy{SLA: model.SLA{Weight: 0.5}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy.Attach = true
			v := model.VirtualVF{MAC: model.MAC{2, 1}, Port: c.host}
			grant, err := ask(&c.ask, &v, &c.policy)
			if err != nil {
				t.Fatal(err)
			}
			v.Grant = &grant
			have := Follow(&v, c.then, 0, &c.policy)
			have.SLA.Source = ""
			if diff := cmp.Diff(c.want, have, samePolicy); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The source of an SLA says whether the guest has changed it.
func TestFollowNamesTheSource(t *testing.T) {
	host := func(limit uint64) model.PortPolicy {
		return model.PortPolicy{SLA: model.SLA{Limit: bits(limit), Source: "the host"}}
	}
	for _, c := range []struct {
		ask  string
		then uint64
		want string
	}{{"10Mbit", 20e6, byGuest}, {"10Mbit", 5e6, "the host"}, {"", 5e6, "the host"}} {
		v := model.VirtualVF{MAC: model.MAC{2, 1}, Port: model.PortPolicy{SLA: model.SLA{Source: "before"}}}
		policy := model.GuestPolicy{Attach: true}
		grant, err := ask(&channel.Attach{Limit: c.ask}, &v, &policy)
		if err != nil {
			t.Fatal(err)
		}
		v.Grant = &grant
		if have := Follow(&v, host(c.then), 0, &policy).SLA.Source; have != c.want {
			t.Errorf("%+v: %q", c, have)
		}
	}
}

// What the host names counts for a guest too, where the host has it so already and host policy let the guest have more.
func TestHostSettingNamed(t *testing.T) {
	off := false
	policy := model.GuestPolicy{Attach: true, NoSpoofCheck: true, VLANs: model.VLANs{{First: 10, Last: 20}}, Weight: 4, Guarantee: bits(1e9)}
	host := model.PortPolicy{SLA: model.SLA{Guarantee: bits(3e6), Limit: bits(2e9)}}
	v := model.VirtualVF{MAC: model.MAC{2, 1}, Port: host}
	wider := channel.Attach{VLAN: 11, SpoofChk: &off, Weight: 3, Guarantee: "1Gbit", Limit: "1500Mbit"}
	grant, err := ask(&wider, &v, &policy)
	if err != nil {
		t.Fatal(err)
	}
	for named, change := range map[model.PortFields]func(*model.PortPolicy){
		0:                   func(*model.PortPolicy) {},
		model.PortVLANs:     func(p *model.PortPolicy) { p.VLAN = 0 },
		model.PortSpoof:     func(p *model.PortPolicy) { p.NoSpoofCheck = false },
		model.PortWeight:    func(p *model.PortPolicy) { p.SLA.Weight = 0 },
		model.PortGuarantee: func(p *model.PortPolicy) { p.SLA.Guarantee = bits(3e6) },
		model.PortLimit:     func(*model.PortPolicy) {}, // it asked for less
	} {
		p := vpftest.PF("a", "vpf0", 1)
		p.VFs[0].Port, p.VFs[0].Grant = host, &grant
		s := testState(t, p).Clone()
		same := func(*model.PortPolicy) error { return nil }
		if err := s.Set(Function{"a", "vpf0", 0}, named, same, &policy); err != nil {
			t.Fatal(err)
		}
		want, have := grant.Port, s.Find("a", "vpf0").VFs[0].Grant.Port
		change(&want)
		want.SLA.Source, have.SLA.Source = "", ""
		if diff := cmp.Diff(want, have, samePolicy); diff != "" {
			t.Errorf("named %b: %s", named, diff)
		}
	}
}
