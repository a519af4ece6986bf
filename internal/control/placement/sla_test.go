package placement

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

// SLAs can require a VF, for packets that virtio cannot carry, and rule one out if nothing could enforce a limit there.
func TestSLAs(t *testing.T) {
	pps := func(n uint64) model.SLA { return model.SLA{Guarantee: model.Rate{Packets: n}} }
	sla := func(match string, s model.SLA) model.VMRule { return model.VMRule{Match: match, SLA: s} }
	kept := func(list ...model.VMRule) model.Rules {
		return model.Rules{KeepSLAs: true, HostPackets: 500e3, VMs: list}
	}
	// Three VMs and one VF, by default on a PF that limits its VFs.
	for _, c := range []struct {
		name  string
		rules model.Rules
		world func(s *scene)
		want  string
		why   map[int]string // of VMs
	}{
		{name: "no SLA: the busiest", rules: kept(), want: "vm0/net0:pf0/0"},
		{
			name: "more packets than virtio carries", rules: kept(sla("vm2", pps(600e3))), want: "vm2/net0:pf0/0",
			why: map[int]string{2: "holds a VF: its SLA requires one (virtio carries 500k packets/s here, but it is guaranteed 600k)"},
		},
		{name: "what is guaranteed fits together", rules: kept(sla("vm1", pps(200e3)), sla("vm2", pps(300e3))), want: "vm0/net0:pf0/0"},
		{
			name: "what is guaranteed does not fit together: the largest", rules: kept(sla("vm1", pps(200e3)), sla("vm2", pps(301e3))),
			want: "vm2/net0:pf0/0",
			why: map[int]string{
				1: "stays on virtio: others come first",
				2: "together with smaller guarantees, its 301k packets/s are more than the 500k",
			},
		},
		{
			name: "what the host carries is not known", rules: model.Rules{KeepSLAs: true, VMs: []model.VMRule{sla("vm2", pps(600e3))}},
			want: "vm0/net0:pf0/0",
		},
		{
			name: "a stopped VM asks for nothing", rules: kept(sla("vm1", pps(400e3)), sla("vm2", pps(450e3))),
			world: func(s *scene) { s.VMs[1].State = model.VMStopped }, want: "vm0/net0:pf0/0",
		},
		{
			name: "a pin goes first", rules: kept(sla("vm2", pps(600e3)), model.VMRule{Match: "vm1", Pin: true}), want: "vm1/net0:pf0/0",
			why: map[int]string{2: "its SLA requires one (virtio carries 500k packets/s here, but it is guaranteed 600k), but every VF of " +
				"network br0 is taken"},
		},
		{
			name: "a limit that the PF cannot hold", rules: kept(sla("vm0", model.SLA{Limit: model.Rate{Bits: 1e9}})), want: "vm1/net0:pf0/0",
			world: func(s *scene) { s.PFs[0].Caps.MaxTxRate = model.No },
			why: map[int]string{0: "stays on virtio: its SLA could not be enforced on a VF (the driver of pf0 (sfc) cannot limit its VFs, and " +
				"its SLA has a limit; set bandwidth.in_guest"},
		},
		{
			name: "a limit that only trying tells", rules: kept(sla("vm0", model.SLA{Limit: model.Rate{Bits: 1e9}})), want: "vm0/net0:pf0/0",
			world: func(s *scene) { s.PFs[0].Caps.MaxTxRate = model.Unknown },
		},
		{
			name: "a limit that the guest holds", rules: kept(sla("vm0", model.SLA{Limit: model.Rate{Bits: 1e9, Packets: 1e5}})),
			want:  "vm0/net0:pf0/0",
			world: func(s *scene) { s.PFs[0].Caps.MaxTxRate, s.VMs[0].InGuest = model.No, model.Yes },
		},
		{
			name: "a limit in packets", rules: kept(sla("vm0", model.SLA{Limit: model.Rate{Packets: 1e5}})), want: "vm1/net0:pf0/0",
			why: map[int]string{0: "limits packets/s, which on a VF only its guest could; set bandwidth.in_guest"},
		},
		{
			name: "a limit in packets, where nobody has tried representors", rules: kept(sla("vm0", model.SLA{Limit: model.Rate{Packets: 1e5}})),
			want: "vm1/net0:pf0/0", world: func(s *scene) { s.PFs[0].Uplink.Representors = true },
			why: map[int]string{0: "limits packets/s, which on a VF only its guest could; let `sluice qualify PF --save` try"},
		},
		{
			name: "a limit in packets that holds at representors", rules: kept(sla("vm0", model.SLA{Limit: model.Rate{Packets: 1e5}})),
			want:  "vm0/net0:pf0/0",
			world: func(s *scene) { s.PFs[0].Uplink.Representors, s.PFs[0].Caps.VFPackets = true, model.Yes },
		},
		{
			name: "a limit in packets that holds on one of two PFs", rules: kept(sla("vm0", model.SLA{Limit: model.Rate{Packets: 1e5}})),
			want: "vm1/net0:pf0/0", world: func(s *scene) {
				s.PFs[0].Uplink.Representors, s.PFs[0].Caps.VFPackets = true, model.Yes
				s.PFs = append(s.PFs, s.PFs[0])
				s.PFs[1].Name, s.PFs[1].VFs, s.PFs[1].Caps.VFPackets = "pf1", nil, model.Unknown
			},
		},
		{
			name: "a limit of what it receives", rules: kept(sla("vm0", model.SLA{Receive: model.Rate{Bits: 1e9}})), want: "vm1/net0:pf0/0",
			why: map[int]string{0: "its SLA limits what it receives"},
		},
		{
			name: "another's guarantee is at stake", rules: kept(sla("vm2", model.SLA{Guarantee: model.Rate{Bits: 1e9}})), want: "vm2/net0:pf0/0",
			world: func(s *scene) { s.PFs[0].Caps.MaxTxRate = model.No },
			why:   map[int]string{0: "others are guaranteed bandwidth on that link"},
		},
		{
			name: "a pin does not break an SLA", rules: kept(sla("vm0", model.SLA{Receive: model.Rate{Bits: 1e9}}),
				model.VMRule{Match: "vm0", Pin: true}), want: "vm1/net0:pf0/0",
			why: map[int]string{0: "its SLA could not be enforced on a VF"},
		},
		{
			name: "one that has a VF gives it up", rules: kept(sla("vm0", model.SLA{Receive: model.Rate{Bits: 1e9}})), want: "vm1/net0:pf0/0",
			world: func(s *scene) { s.give(&s.VMs[0], model.VFID{PF: "pf0", Index: 0}) },
		},
		{
			name: "SLAs that nobody keeps forbid nothing", rules: model.Rules{HostPackets: 500e3, VMs: []model.VMRule{
				sla("vm0", model.SLA{Receive: model.Rate{Bits: 1e9}}), sla("vm2", pps(600e3)),
			}}, want: "vm0/net0:pf0/0",
		},
		{
			name: "one in the metadata counts", rules: kept(), want: "vm1/net0:pf0/0",
			world: func(s *scene) { s.VMs[0].SLAs = []model.NICSLA{{SLA: model.SLA{Receive: model.Rate{Bits: 1e9}}}} },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene().pf("pf0", "br0", 1, 0)
			s.PFs[0].Driver, s.PFs[0].Caps.MaxTxRate = "sfc", model.Yes
			for _, pps := range []float64{30, 20, 10} {
				s.vm("br0", pps)
			}
			d := decider(t, policyOf(c.rules))
			d.Decide(start, &s.Snapshot, &Hints{}) // what is remembered must not outlive a change
			if c.world != nil {
				c.world(s)
			}
			got := d.Decide(start.Add(time.Hour), &s.Snapshot, &Hints{})
			if nicsSaid(s, got) != c.want {
				t.Errorf("assigned %q, want %q", nicsSaid(s, got), c.want)
			}
			for i, want := range c.why {
				if text := got.Reasons[i].String(); !strings.Contains(text, want) {
					t.Errorf("VM %d: %q does not say %q", i, text, want)
				}
			}
		})
	}
}

// The limit set on a VF is the bandwidth controller's: it is not a tier of the policy, even for a NIC that is left as it is.
func TestRateOfAVFIsNoTier(t *testing.T) {
	s := newScene().pf("pf0", "br0", 1, 0)
	vm := s.vm("br0", 10)
	s.give(vm, model.VFID{PF: "pf0"})
	s.PFs[0].VFs[0].MaxTxRate = 1e9
	d := decider(t, policyOf(model.Rules{}))
	moving := &Hints{NICs: map[model.NICID]Hint{{VM: vm.ID, NIC: vm.NICs[0].Alias}: {VF: model.VFID{PF: "pf0"}, Code: model.CodeMoving}}}
	if got := d.Decide(start, &s.Snapshot, moving); len(got.Limits) != 0 || len(got.Assign) != 1 {
		t.Errorf("limits %+v of %+v", got.Limits, got.Assign)
	}
}
