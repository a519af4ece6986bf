package observe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	fdb "sluice/internal/host/bridge"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	counting = model.Caps{VFCounters: model.Yes}
	mute     = model.Caps{VFCounters: model.No}
	poolAll  = Pool{"pf0": {All: true}}
)

func snapshot(t *testing.T, s *Source) *model.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// busyWorld contains one of everything.
func busyWorld() *fakeWorld {
	f := newFakeWorld()
	pf := f.addPF("pf0", "br0", 8, counting)
	f.addPF("pf1", "", 2, mute)
	for n := 1; n <= 6; n++ {
		f.addVM(n, "br0")
	}
	f.attach(1, addr(0))
	f.dom(2).Hostdevs = []libvirt.Hostdev{{Alias: "hostdev0", Address: addr(1), Interface: true, MAC: mac(2)}}
	pf.VFs[3].MAC = mac(3)
	f.dom(3).Hostdevs = []libvirt.Hostdev{{Alias: "hostdev0", Address: addr(3)}, {Alias: "hostdev1", Address: "0000:99:00.0"}}
	f.dom(4).Hostdevs = []libvirt.Hostdev{{Alias: "hostdev0", Address: addr(4)}}
	pf.Uses[5] = vf.Use{HostNetdev: "pf0v5", HostNetdevUp: true}
	pf.Uses[6] = vf.Use{OtherNetns: true}
	f.dom(5).NICs[0].Failover = model.FailoverNone
	f.link("vnet5").Up = false
	f.dom(6).NICs[0].Tap = "elsewhere0"
	f.dom(6).NICs[0].Failover = model.FailoverNone
	f.pfs[0].SelfFDB = []model.MAC{mac(9)}
	f.fdb = []fdb.FDBEntry{
		{MAC: mac(1), Bridge: "br0", Port: "pf0"},
		{MAC: mac(2), Bridge: "br7", Port: "other"},
		{MAC: mac(3), Bridge: "br0", Port: "vnet3"},
		{MAC: mac(4), Bridge: "br0", Port: "vnet4", VLAN: 4},
		{MAC: mac(4), Bridge: "br0", Port: "pf0", VLAN: 7},
		{MAC: mac(8), Bridge: "br0", Port: "pf0", VLAN: 7}, // no NIC has this MAC
		{MAC: mac(8), Bridge: "br0", Port: "vnet3"},
		{MAC: mac(9), Bridge: "br7", Port: "pf1"}, // not managed
	}
	f.dom(4).NICs[0].VLAN = 7
	return f
}

const busyText = `
pf pf0 net=br0 up=true managed=true self=[52:54:00:00:00:09]
  vf 0 sluice holder=id-001 inguest=yes
  vf 1 foreign holder=id-002 inguest=unknown (vm2 has it as hostdev0, not attached by Sluice)
  vf 2 free
  vf 3 foreign holder=id-003 inguest=unknown (vm3 has it as hostdev0, not attached by Sluice)
  vf 4 foreign holder=id-004 inguest=unknown (vm4 has it as hostdev0, not attached by Sluice)
  vf 5 foreign (the host uses it: interface pf0v5 is up)
  vf 6 foreign (its interface is in another network namespace)
  vf 7 foreign (not in Sluice's pool)
pf pf1 net= up=true managed=false self=[]
  vf 0 foreign (not in Sluice's pool)
  vf 1 foreign (not in Sluice's pool)
vm vm1 running
  nic ua-net0 net=br0 failover=teaming link=yes vf=pf0/0 as ua-sluice-525400000001 (sluice) fdb=pf0
    virtio unknown: first sample
    vf unknown: first sample
vm vm2 running
  nic ua-net0 net=br0 failover=teaming link=yes vf=pf0/1 as hostdev0 (foreign)
    virtio unknown: first sample
    vf unknown: first sample
vm vm3 running
  nic ua-net0 net=br0 failover=teaming link=yes vf=pf0/3 as hostdev0 (foreign) fdb=vnet3
    virtio unknown: first sample
    vf unknown: first sample
vm vm4 running
  nic ua-net0 net=br0 failover=teaming link=yes vf=- fdb=pf0
    virtio unknown: first sample
vm vm5 running
  nic ua-net0 net=br0 failover=bond link=no vf=-
    virtio unknown: first sample
vm vm6 running
  nic ua-net0 net=xml-br0 failover= link=unknown vf=-
    virtio unknown: the host has no link elsewhere0
pin 52:54:00:00:00:08 in br0 to pf0 vlan 7
`

func busyOptions() Options {
	return Options{
		Pool: Pool{"pf0": {VFs: []int{0, 1, 2, 3, 4, 5, 6}}},
		Failover: func(name string, _ model.VMID) model.Failover {
			if name == "vm6" {
				return model.FailoverNone
			}
			return model.FailoverBond
		},
	}
}

// The same world gives the same Snapshot, in whatever order it is read.
func TestSnapshot(t *testing.T) {
	for seed := range uint64(20) {
		f := busyWorld()
		for i := range 8 {
			f.counters[model.VFID{PF: "pf0", Index: i}] = netdev.Counters{}
		}
		f.shuffle = rand.New(rand.NewPCG(seed, 0))
		s := New(f, f.uplinks(), f, nil, busyOptions())
		if diff := cmp.Diff(busyText, "\n"+text(snapshot(t, s))); diff != "" {
			t.Fatalf("seed %d, -want +got:\n%s", seed, diff)
		}
		s.Close()
	}
}

// A running domain that could not be read is named in the Snapshot.
func TestSnapshotNamesUnreadDomains(t *testing.T) {
	f := busyWorld()
	f.unread = []model.VMID{"z"}
	s := New(f, f.uplinks(), f, nil, busyOptions())
	defer s.Close()
	snap := snapshot(t, s)
	if snap.Gone("z") || snap.Gone(snap.VMs[0].ID) || !snap.Gone("y") {
		t.Errorf("unread: %v", snap.Unread)
	}
}

// A VF of Sluice's behind a NIC takes precedence over a foreign one: it must be visible to be taken back.
func TestOwnVFIsShownFirst(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 3, counting)
	f.addVM(1, "br0")
	f.dom(1).Hostdevs = []libvirt.Hostdev{{Alias: "hostdev0", Address: addr(0), TeamingPersistent: "ua-net0"}}
	f.attach(1, addr(1))
	f.dom(1).Hostdevs = append(f.dom(1).Hostdevs, libvirt.Hostdev{Alias: "hostdev1", Address: addr(2), MAC: mac(1)})
	s := New(f, f.uplinks(), f, nil, Options{Pool: poolAll})
	defer s.Close()
	nic := snapshot(t, s).VMs[0].NICs[0]
	if nic.VF.Index != 1 || nic.VFOwner != model.OwnerSluice {
		t.Errorf("behind the NIC: %v (%s), want ours, 1", nic.VF, nic.VFOwner)
	}
}

func TestSetPool(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br0")
	f.attach(1, addr(0))
	s := New(f, f.uplinks(), f, nil, Options{})
	defer s.Close()
	owners := func() string {
		pf := snapshot(t, s).PFs[0]
		return fmt.Sprint(pf.Managed, " ", pf.Network, " ", pf.VFs[0].Owner, " ", pf.VFs[1].Owner)
	}
	if got := owners(); got != "false br0 sluice foreign" {
		t.Errorf("no pool: %s", got)
	}
	s.SetPool(Pool{"pf0": {VFs: []int{1}, Network: "blue"}})
	if got := owners(); got != "true blue sluice free" {
		t.Errorf("with a pool: %s", got)
	}
}

// The config's speed applies if the kernel does not know it.
func TestSpeedOfTheLink(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 1, counting)
	f.addPF("pf1", "br1", 1, counting)
	f.pfs[1].Speed = 0
	s := New(f, f.uplinks(), f, nil, Options{Pool: Pool{"pf0": {All: true, Speed: 25e9}, "pf1": {All: true, Speed: 25e9}}})
	defer s.Close()
	pfs := snapshot(t, s).PFs
	if pfs[0].Shared() != 10e9 || pfs[1].Shared() != 25e9 {
		t.Errorf("speeds %d and %d: want the kernel's 10e9, and 25e9 where it knows none", pfs[0].Shared(), pfs[1].Shared())
	}
}

// The shares of a link that carries less than its speed are computed from what it carries; a NIC that accepts VF rates but does not enforce
// them counts as one without.
func TestWhatTheConfigKnowsOfAPF(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 1, counting)
	f.addPF("pf1", "br1", 1, counting)
	for i := range f.pfs {
		f.pfs[i].Caps.MaxTxRate, f.pfs[i].Caps.MinTxRate = model.Yes, model.Yes
	}
	s := New(f, f.uplinks(), f, nil, Options{Pool: Pool{"pf0": {All: true, Speed: 2e9, NoRates: true}, "pf1": {All: true, Speed: 25e9}}})
	defer s.Close()
	pfs := snapshot(t, s).PFs
	if pfs[0].Speed != 10e9 || pfs[0].Shared() != 2e9 || pfs[1].Shared() != 10e9 {
		t.Errorf("speed %d, shared %d and %d: want 10e9, 2e9 and 10e9", pfs[0].Speed, pfs[0].Shared(), pfs[1].Shared())
	}
	if a, b := pfs[0].Caps, pfs[1].Caps; a.MaxTxRate != model.No || a.MinTxRate != model.No || b.MaxTxRate != model.Yes ||
		b.MinTxRate != model.Yes {
		t.Errorf("VF rates %v and %v: want none of pf0's", a, b)
	}
}

// What the config says of a link's capacity ranks above what was measured.
func TestCapacityOfTheLink(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 1, counting)
	f.addPF("pf1", "br1", 1, counting)
	f.addPF("pf2", "br2", 1, counting)
	s := New(f, f.uplinks(), f, nil, Options{
		Pool: Pool{"pf0": {Speed: 9.8e9}, "pf1": {}},
		Measured: func(pf *model.PF) {
			if pf.Name != "pf2" {
				pf.Carry(9.4e9, model.CapacityQualified, "untagged")
			}
		},
	})
	defer s.Close()
	pfs := snapshot(t, s).PFs
	for i, want := range []model.Capacity{
		{Bits: 9.8e9, Speed: 10e9, Source: model.CapacityConfigured},
		{Bits: 9.4e9, Speed: 10e9, Source: model.CapacityQualified, Detail: "untagged"},
		{Bits: 10e9, Speed: 10e9, Source: model.CapacityDriver},
	} {
		if got := pfs[i].Capacity(); got != want {
			t.Errorf("%s: %+v, want %+v", pfs[i].Name, got, want)
		}
	}
}

// A failed query is an error and never yields an incomplete Snapshot.
func TestSnapshotFails(t *testing.T) {
	for _, what := range []string{"links", "domains", "stats", "pfs", "fdb"} {
		t.Run(what, func(t *testing.T) {
			f := busyWorld()
			s := New(f, f.uplinks(), f, nil, busyOptions())
			defer s.Close()
			f.fail[what] = errors.New("broken")
			if snap, err := s.Snapshot(context.Background()); err == nil || snap != nil {
				t.Errorf("got %v, %v; want an error", snap, err)
			}
			f.fail[what] = nil
			snapshot(t, s)
		})
	}
}

// A failed query that only affects figures is a Problem.
func TestSnapshotBearsWithLess(t *testing.T) {
	f := busyWorld()
	f.fail["counters pf0"] = errors.New("no answer")
	f.fail["watch"] = errors.New("no socket")
	f.fail["open "+string(addr(0))] = errors.New("no such file")
	s := New(f, f.uplinks(), f, nil, busyOptions())
	defer s.Close()
	got := text(snapshot(t, s))
	for _, want := range []string{
		"problem pf0: cannot read the counters of its VFs: no answer",
		"problem pf0/0: cannot tell whether a guest uses it: no such file",
		"vf 0 sluice holder=id-001 inguest=unknown",
		"    vf unknown: the PF's counters cannot be read, and no guest agent answers",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// run calls f in a bubble with virtual time, with a Source that is closed at the end.
func run(t *testing.T, f *fakeWorld, o Options, body func(t *testing.T, s *Source)) {
	synctest.Test(t, func(t *testing.T) {
		s := New(f, f.uplinks(), f, f, o)
		defer s.Close()
		body(t, s)
	})
}

func TestRates(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br0")
	f.attach(1, addr(0))
	vf := model.VFID{PF: "pf0", Index: 0}
	f.counters[vf] = netdev.Counters{RxPackets: 1000}
	f.stats["id-001"] = libvirt.Stat{CPUKnown: true, CPUTime: time.Minute, State: model.VMPaused}
	run(t, f, Options{Pool: poolAll, CPUEvery: -1}, func(t *testing.T, s *Source) {
		snapshot(t, s)
		time.Sleep(2 * time.Second)
		f.tapMoves(1, 20, 40)
		f.counters[vf] = netdev.Counters{RxPackets: 3000, TxPackets: 10}
		f.stats["id-001"] = libvirt.Stat{CPUKnown: true, CPUTime: time.Minute + 3*time.Second, State: model.VMPaused}
		want := `vm vm1 paused cpu=1.50
  nic ua-net0 net=br0 failover=teaming link=yes vf=pf0/0 as ua-sluice-525400000001 (sluice)
    virtio rx=10 tx=20 by tap proof=kernel
    vf rx=1000 tx=5 by pf proof=hardware
`
		if got := text(snapshot(t, s)); !strings.HasSuffix(got, want) {
			t.Errorf("got:\n%s\nwant at its end:\n%s", got, want)
		}
	})
}

// A tap that reappears under its old name is another tap; so is one after an absence.
func TestRatesOfAnotherTap(t *testing.T) {
	f := newFakeWorld()
	f.addVM(1, "br0")
	run(t, f, Options{}, func(t *testing.T, s *Source) {
		rate := func() string {
			time.Sleep(time.Second)
			f.tapMoves(1, 100, 0)
			v := snapshot(t, s).VMs[0].NICs[0].Virtio
			return fmt.Sprint(v.RxPPS, " ", v.Note)
		}
		want := func(w string) {
			t.Helper()
			if got := rate(); got != w {
				t.Errorf("got %q, want %q", got, w)
			}
		}
		want("0 first sample")
		want("100 ")
		f.link("vnet1").Index = 77
		want("0 the device is a new one")
		want("100 ")
		all := f.links
		f.links = f.links[:1]
		time.Sleep(time.Second)
		snapshot(t, s)
		f.links = all
		want("0 first sample")
		want("100 ")
	})
}

// A VF's counters continue from holder to holder: the first figure of a new holder must not include its predecessor's packets.
func TestRatesOfAnotherHolder(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br0")
	f.addVM(2, "br0")
	f.attach(1, addr(0))
	vf := model.VFID{PF: "pf0", Index: 0}
	run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
		for range 3 {
			f.counters[vf] = netdev.Counters{RxPackets: f.counters[vf].RxPackets + 500}
			snapshot(t, s)
			time.Sleep(time.Second)
		}
		f.dom(1).Hostdevs = nil
		f.attach(2, addr(0))
		f.counters[vf] = netdev.Counters{RxPackets: 9000}
		snap := snapshot(t, s)
		if got := snap.VMs[1].NICs[0].VFPath; got.Known {
			t.Errorf("the new holder's first figure: %+v", got)
		}
		if got := snap.VMs[0].NICs[0].VFPath; got != (model.Traffic{}) {
			t.Errorf("the old holder's: %+v", got)
		}
		time.Sleep(time.Second)
		f.counters[vf] = netdev.Counters{RxPackets: 9100}
		if got := snapshot(t, s).VMs[1].NICs[0].VFPath; got.RxPPS != 100 {
			t.Errorf("the new holder's second figure: %+v", got)
		}
	})
}

// Every driver shows counters; one that is not known to count is believed only once a counter is not zero.
func TestUnknownDriver(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, model.Caps{}).Driver = "newnic"
	f.addVM(1, "br0").Ready = model.No
	f.attach(1, addr(0))
	vf := model.VFID{PF: "pf0", Index: 0}
	f.counters[vf] = netdev.Counters{}
	run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
		look := func() model.Traffic {
			time.Sleep(time.Second)
			return snapshot(t, s).VMs[0].NICs[0].VFPath
		}
		look()
		want := "driver newnic is not known to count per VF and shows only zeros, and no guest agent answers"
		if got := look(); got.Known || got.Note != want {
			t.Errorf("zeros: %+v", got)
		}
		f.counters[vf] = netdev.Counters{TxPackets: 1}
		look()
		if got := look(); got.Proof != model.ProofHardware {
			t.Errorf("after it counted: %+v", got)
		}
	})
}

// The inventory is read when an event asks for it, and rarely otherwise.
func TestInventoryIsReadSeldom(t *testing.T) {
	f := busyWorld()
	run(t, f, busyOptions(), func(t *testing.T, s *Source) {
		tick := func(n int) int {
			before := f.count("pfs")
			for range n {
				snapshot(t, s)
				time.Sleep(time.Second)
			}
			return f.count("pfs") - before
		}
		check := func(what string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: read %d times, want %d", what, got, want)
			}
		}
		tick(3)
		check("quiet", tick(60), 12)
		s.Invalidate()
		check("invalidated", tick(3), 1)
		f.watch <- struct{}{}
		check("after an event", tick(3), 1)
		f.set(func() { f.dom(1).Hostdevs = nil })
		check("after a holder let go", tick(3), 1)
		f.set(func() { f.attach(5, addr(2)) })
		check("after another got one", tick(3), 1)
		for range 10 {
			f.watch <- struct{}{}
			tick(1)
		}
		got := f.count("pfs")
		for range 10 {
			f.watch <- struct{}{}
			tick(1)
		}
		check("in a storm of 10 s", f.count("pfs")-got, 5)
		f.set(func() { close(f.watch) })
		tick(1)
		f.set(func() { f.watch = make(chan struct{}, 1) })
		before := f.count("watch")
		tick(3)
		check("watches after one broke", f.count("watch")-before, 1)
	})
}

// The next Snapshot shows that a guest starts or stops using its VF, without reading anything else again.
func TestInGuestIsReadEveryTime(t *testing.T) {
	f := busyWorld()
	run(t, f, busyOptions(), func(t *testing.T, s *Source) {
		snapshot(t, s)
		before := f.count("pfs")
		for _, want := range []model.Tri{model.No, model.Yes, model.Unknown, model.No} {
			f.set(func() { f.open[addr(0)] = want })
			time.Sleep(time.Second)
			if got := snapshot(t, s).PFs[0].VFs[0].InGuest; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if n := f.count("pfs") - before; n != 0 {
			t.Errorf("the inventory was read %d times", n)
		}
	})
}

// A VF that is open without a domain counts as foreign only after a delay: QEMU opens a device before libvirt shows it.
func TestForeignProcess(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 5, counting)
	f.pfs[0].VFs[3].Driver = "igbvf"
	f.open[addr(1)], f.open[addr(2)] = model.No, model.Yes
	run(t, f, Options{Pool: poolAll, Recheck: time.Second}, func(t *testing.T, s *Source) {
		owner := func() string {
			vf := snapshot(t, s).PFs[0].VFs[1]
			return fmt.Sprint(vf.Owner, " ", vf.OwnerWhy)
		}
		const taken = "foreign a process other than a libvirt domain has it open"
		if got := snapshot(t, s).PFs[0].VFs[2]; got.Owner != model.OwnerForeign {
			t.Errorf("open at the first look, but %s", got.Owner)
		}
		if got := owner(); got != "free " {
			t.Fatalf("closed: %s", got)
		}
		f.open[addr(1)] = model.Yes
		time.Sleep(time.Second)
		for range 5 {
			if got := owner(); got != "free " {
				t.Fatalf("at first: %s", got)
			}
			time.Sleep(time.Second)
		}
		if got := owner(); got != taken {
			t.Errorf("after a while: %s", got)
		}
		f.open[addr(1)] = model.No
		time.Sleep(time.Second)
		if got := owner(); got != "free " {
			t.Errorf("afterwards: %s", got)
		}
		s.SetPool(nil)
		snapshot(t, s)
		f.open[addr(1)] = model.Yes
		s.SetPool(poolAll)
		if got := owner(); got != taken {
			t.Errorf("in the pool again and open: %s", got)
		}
		f.pfs[0].VFs[3].Driver = "vfio-pci"
		f.open[addr(3)], f.open[addr(4)] = model.Yes, model.Yes
		s.Invalidate()
		vfs := snapshot(t, s).PFs[0].VFs
		if got := vfs[3]; got.Owner != model.OwnerFree {
			t.Errorf("bound and opened since the last look: %s %s", got.Owner, got.OwnerWhy)
		}
		if got := vfs[4]; got.Owner != model.OwnerForeign {
			t.Errorf("open, and never known to be closed, but %s", got.Owner)
		}
	})
}

func TestProblems(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "", 4, mute).Driver = "igb"
	f.addPF("pf1", "br0", 0, mute)
	f.link("pf1").Carrier = false
	f.addVM(1, "br0").Ready = model.No
	f.addVM(2, "br0").NICs[0].FreePort = model.No
	f.attach(1, addr(0))
	f.problems = []model.Problem{{Subject: "vm9", Text: "its XML cannot be read"}}
	s := New(f, f.uplinks(), f, nil, Options{Pool: Pool{"pf0": {VFs: []int{3, 7}, Network: "br0"}, "pf1": {All: true}, "pf9": {All: true}}})
	defer s.Close()
	snapshot(t, s)
	f.pfs[0].NumVFs = 3
	f.pfs[0].VFs, f.pfs[0].Uses = f.pfs[0].VFs[:3], f.pfs[0].Uses[:3]
	s.Invalidate()
	var b strings.Builder
	problems(&b, snapshot(t, s).Problems)
	want := `problem vm9: its XML cannot be read
problem pf0/3: the config lists it, but pf0 has 3 VFs
problem pf0/7: the config lists it, but pf0 has 3 VFs
problem pf9: the config lists it, but there is no such PF
problem pf0: sriov_numvfs changed from 4 to 3 since the config was read
problem pf0: no VM can use its VFs: pf0 is in no bridge
problem pf1: it has no VFs
problem pf1: its link is down: none of its VFs carries traffic
problem vm1: its load on VF pf0/0 will soon be unknown: driver igb does not count per VF, and no guest agent answers
problem vm2: it has no free PCIe root port, so no VF can be plugged
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.SetPool(Pool{"pf0": {All: true}})
	for _, p := range snapshot(t, s).Problems {
		if strings.Contains(p.Text, "sriov_numvfs") {
			t.Errorf("after a reload: %s", p.Text)
		}
	}
}

// A NIC that changes from one VF to another gets no figure that mixes the two.
func TestRatesOfAnotherVF(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 2, counting)
	f.addVM(1, "br0")
	f.attach(1, addr(0))
	f.counters[model.VFID{PF: "pf0", Index: 0}] = netdev.Counters{RxPackets: 100}
	f.counters[model.VFID{PF: "pf0", Index: 1}] = netdev.Counters{RxPackets: 900}
	run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
		snapshot(t, s)
		time.Sleep(time.Second)
		f.dom(1).Hostdevs = nil
		f.attach(1, addr(1))
		if got := snapshot(t, s).VMs[0].NICs[0]; got.VF.Index != 1 || got.VFPath.Known {
			t.Errorf("behind VF %s: %+v", got.VF, got.VFPath)
		}
	})
}

// The virtio path works only if tap and bridge are both up and the tap is held open.
func TestLinkUp(t *testing.T) {
	for name, spoil := range map[string]func(f *fakeWorld){
		"tap down":    func(f *fakeWorld) { f.link("vnet1").Up = false },
		"no carrier":  func(f *fakeWorld) { f.link("vnet1").Carrier = false },
		"no bridge":   func(f *fakeWorld) { f.link("vnet1").Master = 0 },
		"bridge down": func(f *fakeWorld) { f.link("br0").Up = false },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeWorld()
			f.addVM(1, "br0")
			s := New(f, f.uplinks(), f, nil, Options{})
			defer s.Close()
			if got := snapshot(t, s).VMs[0].NICs[0].LinkUp; got != model.Yes {
				t.Errorf("sound: %s", got)
			}
			spoil(f)
			if got := snapshot(t, s).VMs[0].NICs[0].LinkUp; got != model.No {
				t.Errorf("spoilt: %s", got)
			}
		})
	}
}

// A request to read everything again survives a failed read.
func TestInvalidateSurvivesFailure(t *testing.T) {
	f := busyWorld()
	s := New(f, f.uplinks(), f, nil, Options{Recheck: time.Hour})
	defer s.Close()
	snapshot(t, s)
	s.Invalidate()
	f.fail["fdb"] = errors.New("broken")
	if _, err := s.Snapshot(context.Background()); err == nil {
		t.Fatal("no error")
	}
	f.fail["fdb"] = nil
	n := f.count("fdb")
	snapshot(t, s)
	if f.count("fdb") == n {
		t.Error("the inventory was not read again")
	}
}

// CPU times are read rarely; in between, the last result is kept.
func TestCPUTimesAreReadSeldom(t *testing.T) {
	f := newFakeWorld()
	f.addVM(1, "br0")
	run(t, f, Options{Pool: poolAll}, func(t *testing.T, s *Source) {
		for i := range 16 {
			f.stats["id-001"] = libvirt.Stat{CPUKnown: true, CPUTime: time.Duration(i) * time.Second / 2, State: model.VMRunning}
			if vm := snapshot(t, s).VMs[0]; i >= 5 && vm.CPU != 0.5 {
				t.Errorf("after %d s: CPU use %v, known %v, want 0.5", i, vm.CPU, vm.CPUKnown)
			}
			time.Sleep(time.Second) // virtual time
		}
	})
	if n := f.asked["stats"]; n != 4 {
		t.Errorf("read %d times in 15 s, want 4", n)
	}
}

// A VF that is set aside is unavailable from the next Snapshot on, and measured properties replace assumed ones.
func TestSetAsideAndMeasured(t *testing.T) {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 3, counting)
	var aside map[model.VFID]bool
	o := Options{
		Pool: poolAll, Recheck: time.Hour,
		SetAside: func() func(*model.VF) string {
			if aside == nil {
				return nil
			}
			return func(vf *model.VF) string {
				if vf.Owner != model.OwnerFree || !aside[vf.ID] {
					return ""
				}
				return model.SetAside
			}
		},
		Measured: func(pf *model.PF) { pf.Caps.VFCounters = model.No },
	}
	run(t, f, o, func(t *testing.T, s *Source) {
		if pf := snapshot(t, s).PFs[0]; pf.VFs[2].Owner != model.OwnerFree || pf.Caps.VFCounters != model.No {
			t.Errorf("%+v", pf)
		}
		aside = map[model.VFID]bool{{PF: "pf0", Index: 2}: true}
		pf := snapshot(t, s).PFs[0]
		if pf.VFs[2].Owner != model.OwnerForeign || pf.VFs[2].OwnerWhy != model.SetAside || pf.VFs[1].Owner != model.OwnerFree {
			t.Errorf("%+v", pf.VFs)
		}
		aside = nil
		if got := snapshot(t, s).PFs[0].VFs[2]; got.Owner != model.OwnerFree {
			t.Errorf("given back, but %s", got.Owner)
		}
	})
}
