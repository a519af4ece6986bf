package bandwidth

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

// foreign gives a VM's first NIC a VF that somebody else attached and its guest uses.
func (r *rig) foreign(i, vf int) {
	r.plug(i, vf)
	r.world.Snapshot.PFs[0].VFs[vf].Owner, r.vm(i).NICs[0].VFOwner = model.OwnerForeign, model.OwnerForeign
}

// observe makes the Core limit nobody.
func (r *rig) observe() {
	o := r.c.opts
	o.Mode = model.ModeObserve
	if err := r.c.SetOptions(o); err != nil {
		r.t.Fatal(err)
	}
}

// alloc is the Allocator of pf0.
func (r *rig) alloc() *tenth { return r.c.links[0].alloc.(*tenth) }

// Sluice limits no VF that somebody else attached, whatever could limit it.
func TestForeignVFsAreNotLimited(t *testing.T) {
	for _, by := range []string{"max_tx_rate", "guest-htb", ""} {
		r := newRig(t, 2)
		r.named["vf tx"] = by
		r.rule(0, model.SLA{Guarantee: gbit(6)})
		r.foreign(1, 0)
		r.follow()
		r.send(nicOf(1), model.PathVF, 7e9)
		r.run(2 * time.Second)
		if n := r.c.View().NICs[1]; n.Code != model.BandwidthNotEnforced || len(r.stand) == 0 || r.stand[key(1, model.PathVF, model.Tx)].Bits > 0 {
			t.Errorf("%s: %s: %s; in force %+v", by, n.Code, n.Why, r.stand)
		}
		if n := r.c.View().NICs[1]; !n.Allowed.IsZero() {
			t.Errorf("%s: nothing limits it, and it is allowed %s", by, n.Allowed)
		}
		r.world.Snapshot.PFs[0].VFs[0].MaxTxRate = 7e9
		r.follow()
		r.run(time.Second)
		if n := r.c.View().NICs[1]; n.Allowed.Bits != 7e9 {
			t.Errorf("%s: somebody limits it to 7 Gbit/s, and it is allowed %s", by, n.Allowed)
		}
	}
}

// shortRig has vm0, which lacks 3 of the 6 Gbit/s that it is promised, beside vm1, whose VF somebody else attached.
func shortRig(t *testing.T) *rig {
	r := newRig(t, 4)
	r.rule(0, model.SLA{Guarantee: gbit(6)})
	r.foreign(1, 0)
	r.follow()
	r.send(nicOf(0), model.PathVirtio, 6e9)
	r.run(time.Second)
	r.send(nicOf(0), model.PathVirtio, 3e9)
	r.send(nicOf(1), model.PathVF, 7e9)
	r.run(time.Second)
	if n := r.c.View().NICs[0]; n.Short < 2.5e9 {
		t.Fatalf("it is short of %d", n.Short)
	}
	return r
}

// Nothing is short where nothing is promised, or whose link is not known.
func TestShortageEndsWithThePromise(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"the rule is removed": func(r *rig) { r.world.Rules = model.Rules{} },
		"its link is unknown": func(r *rig) { r.vm(0).NICs[0].Network = "br9" },
	} {
		r := shortRig(t)
		end(r)
		r.follow()
		r.run(time.Second)
		if n := r.c.View().NICs[0]; n.Short > 0 || n.ShortFor > 0 {
			t.Errorf("%s: promised %s, and short of %d", name, n.Promised, n.Short)
		}
	}
}

// Who lacks part of a guarantee is told who has it, what limits that one, and what helps.
func TestShortageNamesWhoHasTheRest(t *testing.T) {
	const lack = "vm0 gets 3Gbit/s of the 6Gbit/s it is promised: "
	const detach = "detach that VF if its guest can go on over virtio, where Sluice limits it"
	plug := func(r *rig) { r.plug(1, 0) }
	failing := func(path model.Path) func(*rig) {
		return func(r *rig) {
			if path == model.PathVF {
				r.plug(1, 0)
			}
			r.fail = func(l model.Limit) error {
				if l.VM == vm(1) && l.Path == path {
					return errors.New("no such device")
				}
				return nil
			}
		}
	}
	for name, c := range map[string]struct {
		prepare, then func(*rig)
		have, remedy  string
	}{
		"somebody else's VF": {
			func(r *rig) { r.foreign(1, 2) }, nil,
			"vm1's VF pf0/2 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: somebody else attached its VF",
			detach + "; or limit it by hand: `ip link set pf0 vf 2 max_tx_rate 4000`",
		},
		"the same, limited by hand": {
			func(r *rig) { r.foreign(1, 2); r.world.Snapshot.PFs[0].VFs[2].MaxTxRate = 7e9 }, nil,
			"vm1's VF pf0/2 takes 7Gbit/s of the 10Gbit/s that pf0 carries; somebody else attached it, and its limit there is 7Gbit/s",
			detach + "; or limit it by hand: `ip link set pf0 vf 2 max_tx_rate 4000`",
		},
		"somebody else's VF that its guest would limit": {
			func(r *rig) { r.foreign(1, 2); r.named["vf tx"] = "guest-htb" }, nil,
			"vm1's VF pf0/2 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: somebody else attached its VF", detach,
		},
		"somebody else's VF, and nothing limits taps": {
			func(r *rig) { r.foreign(1, 2); r.named["vf tx"], r.named["virtio tx"] = "", "" }, nil,
			"vm1's VF pf0/2 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: somebody else attached its VF",
			"detach that VF, or promise less",
		},
		"a driver without VF rates": {
			func(r *rig) { r.plug(1, 0); r.named["vf tx"] = "" }, nil,
			"vm1's VF pf0/0 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: the driver of pf0 has no VF rates; " +
				"`bandwidth.in_guest` would limit it in the guest",
			"move it to virtio, where Sluice limits it: `sluice release vm1`; or let its guest limit itself: bandwidth.in_guest in sluice.yaml",
		},
		"a VF that refuses its limit": {
			failing(model.PathVF), nil, "vm1's VF pf0/0 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: no such device",
			"correct that: it is tried again by itself; or move it to virtio, where Sluice limits it: `sluice release vm1`",
		},
		"a VF that does not keep its limit": {
			plug, nil,
			"vm1's VF pf0/0 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: its guest sent 7Gbit/s through its VF, but only " +
				"1.43Gbit/s were allowed",
			"Sluice takes that VF away; `sluice explain vm1` says what prevents that",
		},
		"a tap that is limited": {
			nil, nil, "vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries; it is limited to 1Gbit/s",
			"limit it for good: `sluice sla set vm1 --limit 4Gbit`",
		},
		"a tap that refuses its limit": {
			failing(model.PathVirtio), nil, "vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: no such device",
			"correct that: it is tried again by itself",
		},
		"a kernel without enforcers": {
			func(r *rig) { r.named["virtio tx"] = "" }, nil,
			"vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries; nothing limits it: this kernel has neither TCX nor HTB for its tap",
			"use Linux 6.6 or later, or load what HTB needs: `modprobe ifb`, `modprobe sch_htb`",
		},
		"a tree of taps": {
			func(r *rig) { r.named["virtio tx"] = "htb" }, nil,
			"vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries; the queues of the taps let it",
			"limit it for good: `sluice sla set vm1 --limit 4Gbit`",
		},
		"observe mode": {
			func(r *rig) { r.observe() }, nil, "vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries; observe mode limits nobody",
			"set mode: enforce in sluice.yaml: then Sluice limits it",
		},
		"an allocator that divides nothing": {
			func(r *rig) { r.useAllocator("none") }, nil, "vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries; Sluice does not limit it",
			"limit it for good: `sluice sla set vm1 --limit 4Gbit`",
		},
		"a VM with another NIC there": {
			func(r *rig) { r.vm(1).NICs = append(r.vm(1).NICs, model.NIC{Alias: "n1", Network: "br0"}) }, nil,
			"n0 of vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries; it is limited to 1Gbit/s",
			"limit it for good: `sluice sla set vm1 --nic n0 --limit 4Gbit`",
		},
		"a VM that is called like a command": {
			func(r *rig) { r.vm(1).Name = "`sluice drain`" }, nil,
			"'sluice drain' takes 7Gbit/s of the 10Gbit/s that pf0 carries; it is limited to 1Gbit/s",
			"limit it for good: `sluice sla set 'sluice drain' --limit 4Gbit`",
		},
		"one that is promised some itself": {
			func(r *rig) { r.rule(1, model.SLA{Guarantee: gbit(2)}) }, nil,
			"vm1 takes 7Gbit/s of the 10Gbit/s that pf0 carries, 5Gbit/s more than it is promised; it is limited to 2Gbit/s",
			"limit it for good: `sluice sla set vm1 --limit 4Gbit`",
		},
		"several": {
			nil, func(r *rig) { r.send(nicOf(1), model.PathVirtio, 2.8e9); r.send(nicOf(2), model.PathVirtio, 4e9) },
			"vm2 takes 4Gbit/s of the 9.8Gbit/s that pf0 carries; it is limited to 1Gbit/s", "limit it for good: `sluice sla set vm2 --limit 1Gbit`",
		},
		"many": {
			nil, func(r *rig) {
				for i, x := range []float64{0.8, 0.9, 0.1, 0.7, 0.5, 0.6} {
					r.send(nicOf(1+i), model.PathVirtio, x*1e9)
				}
				r.alloc().carries = 6.6e9
			},
			"vm2 takes 900Mbit/s of the 6.6Gbit/s that pf0 carries; it is limited to 1Gbit/s; vm1 takes 800Mbit/s; it is limited to 1Gbit/s; " +
				"vm4 takes 700Mbit/s; it is limited to 1Gbit/s; 2 more take 1.1Gbit/s beyond what they are promised",
			"limit it for good: `sluice sla set vm2 --limit 1Mbit`; limit it for good: `sluice sla set vm1 --limit 1Mbit`; " +
				"limit it for good: `sluice sla set vm4 --limit 1Mbit`",
		},
		"the host": {
			nil, func(r *rig) { r.send(nicOf(1), model.PathVirtio, 0); r.port = 9.9e9 },
			"no VM is known to send 6.9Gbit/s of the 9.9Gbit/s that pf0 carries",
			"find out what this host itself sends through pf0, and stop or limit that; `sluice vfs` lists VFs that somebody else uses",
		},
		"somebody else's VF that nothing counts": {
			func(r *rig) { r.foreign(1, 2); r.left[nicOf(1)] = true; r.port = 9.9e9 }, nil,
			"no VM is known to send 6.9Gbit/s of the 9.9Gbit/s that pf0 carries; nothing counts vm1's VF pf0/2",
			"find out what this host itself sends through pf0, and stop or limit that; `sluice vfs` lists VFs that somebody else uses",
		},
		"a link that carries too little": {
			nil, func(r *rig) { r.send(nicOf(1), model.PathVirtio, 0); r.alloc().carries = 3e9 },
			"pf0 carries only 3Gbit/s, and nobody takes more of that than it is promised",
			"promise less; if its link always carries less than it says, set pfs[].speed in sluice.yaml",
		},
		"an allocator that allows too little": {
			nil, func(r *rig) { r.send(nicOf(1), model.PathVirtio, 0); r.alloc().less = true },
			"pf0 is not full, but allocator tenth allows no more", "if that lasts, choose another with bandwidth.allocator in sluice.yaml",
		},
	} {
		r := newRig(t, 7)
		r.rule(0, model.SLA{Guarantee: gbit(6)})
		r.send(nicOf(0), model.PathVirtio, 6e9)
		if c.prepare != nil {
			c.prepare(r)
		}
		r.follow()
		r.run(time.Second)
		r.send(nicOf(0), model.PathVirtio, 3e9)
		r.send(nicOf(1), r.path(1), 7e9)
		if c.then != nil {
			c.then(r)
		}
		r.run(3 * time.Second)
		r.nic(0).short = 3e9 // its peak decays meanwhile
		v := r.c.View()
		s := v.Links[0].Shortage
		if s == nil {
			t.Errorf("%s: no shortage: %+v", name, v.NICs[0])
			continue
		}
		if s.Text != lack+c.have || s.Remedy != c.remedy {
			t.Errorf("%s:\nhave %s\n  -> %s\nwant %s\n  -> %s", name, s.Text, s.Remedy, lack+c.have, c.remedy)
		}
		if n := v.NICs[0]; !strings.HasSuffix(n.Why, "; "+c.have) || n.Remedy != c.remedy || n.Takes > 0 {
			t.Errorf("%s: who lacks it: %s -> %s", name, n.Why, n.Remedy)
		}
		for i := range v.NICs[1:] {
			n := &v.NICs[1+i]
			at := slices.IndexFunc(s.Takers, func(t model.Taker) bool { return t.NICID == n.NICID })
			if at >= 0 != (n.Takes > 0) || at >= 0 && (n.Takes != s.Takers[at].Beyond || !strings.Contains(n.Why, " while vm0 gets 3Gbit/s of")) {
				t.Errorf("%s: %s takes %d: %s; takers %+v", name, n.VMName, n.Takes, n.Why, s.Takers)
			}
		}
	}
}

// A shortage becomes a Problem when it has lasted, and is none any more when it ends.
func TestShortageThatLastsIsAProblem(t *testing.T) {
	r := shortRig(t)
	problems := func() (list []model.Problem) {
		v := r.c.View()
		for _, p := range v.Problems {
			if s := v.Links[0].Shortage; p.Subject == "pf0" && s != nil && p.Text == s.Text && p.Remedy == s.Remedy && p.Remedy != "" {
				list = append(list, p)
			}
		}
		return list
	}
	r.run(shortageLasts - 2*time.Second)
	if p := problems(); len(p) > 0 {
		t.Errorf("%s after it began: %+v", r.c.View().Links[0].Shortage.For, p)
	}
	r.run(2 * time.Second)
	if p := problems(); len(p) != 1 {
		t.Errorf("%s after it began: %+v", r.c.View().Links[0].Shortage.For, p)
	}
	r.send(nicOf(0), model.PathVirtio, 6e9)
	r.send(nicOf(1), model.PathVF, 1e9)
	r.run(time.Second)
	if v := r.c.View(); v.Links[0].Shortage != nil || len(v.Problems) > 0 || v.NICs[1].Takes > 0 {
		t.Errorf("%+v, %+v", v.Links[0].Shortage, v.Problems)
	}
}

// A virtual PF is one sender on its link. Inside it, its functions lack what others of them have.
func TestShortageOfVirtualPFs(t *testing.T) {
	r := newVPFRig(t, 1, 2)
	r.useAllocator("tenth")
	r.whole(model.SLA{Guarantee: gbit(4)})
	r.function(0).Share = model.SLA{Guarantee: gbit(3)}
	r.rule(0, model.SLA{Guarantee: gbit(5)})
	r.fail = func(l model.Limit) error {
		if l.NIC == functionOf(1, 1).NIC {
			return errors.New("no such tap")
		}
		return nil
	}
	r.follow()
	send := func(vm, vf0, vf1 float64) {
		r.send(nicOf(0), model.PathVirtio, vm)
		r.send(functionOf(1, 0), model.PathVirtio, vf0)
		r.send(functionOf(1, 1), model.PathVirtio, vf1)
		r.run(time.Second)
	}
	look := func(what, link, inside string) {
		t.Helper()
		v := r.c.View()
		if s := v.Links[0].Shortage; (s != nil) != (link != "") || s != nil && s.Text != link {
			t.Errorf("%s: on the link %+v, want %s", what, s, link)
		}
		f := v.NICs[slices.IndexFunc(v.NICs, func(n model.NICBandwidth) bool { return n.NICID == functionOf(1, 0) })]
		if inside != "" && !strings.HasSuffix(f.Why, inside) || f.Remedy == "" != (inside == "") {
			t.Errorf("%s: %s -> %s, want %s", what, f.Why, f.Remedy, inside)
		}
	}
	send(5e9, 3e9, 1e9)
	look("all have enough", "", "")
	send(2e9, 3e9, 5e9)
	look("vm0 is short",
		"vm0 gets 2Gbit/s of the 5Gbit/s it is promised and asks for 4.5Gbit/s: virtual PF vpf0 of vm1 takes 8Gbit/s of the 10Gbit/s that pf0 carries, 4Gbit/s more "+
			"than it is promised; nothing limits its vf1: no such tap", "")
	if w := r.c.View().VirtualPFs[0]; w.Takes < 3.9e9 || w.Remedy == "" {
		t.Errorf("the virtual PF: %+v", w)
	}
	send(5e9, 1e9, 4e9)
	look("vf0 is short", "", "; vf1 takes 4Gbit/s of the 5Gbit/s that virtual PF vpf0 of vm1 carries; nothing limits it: no such tap")
	r.run(shortageLasts)
	if p := r.c.View().Problems; len(p) != 1 || p[0].Subject != "vm1" || !strings.HasPrefix(p[0].Text, "vf0 gets ") {
		t.Errorf("%+v", p)
	}
	send(7.5e9, 1e9, 1e9)
	look("both are short", "virtual PF vpf0 of vm1 gets 2Gbit/s of the 4Gbit/s it is promised: vm0 takes 7.5Gbit/s of the 9.5Gbit/s that pf0 "+
		"carries, 2.5Gbit/s more than it is promised; it is limited to 5Gbit/s", "")
}
