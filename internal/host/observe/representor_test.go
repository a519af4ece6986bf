package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/netdev"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// switchdevWorld has a PF in mode switchdev with three VFs, of which the third has no representor here, and a VM with the first.
func switchdevWorld() *fakeWorld {
	f := newFakeWorld()
	f.addPF("pf0", "br0", 3, mute).Eswitch = model.EswitchSwitchdev
	l := f.link("pf0")
	l.Switch, l.Port = "a1", "p0"
	for i := range 2 {
		f.links = append(f.links, netdev.Link{
			Index: 300 + i, Name: fmt.Sprintf("rep%d", i), Switch: "a1", Port: fmt.Sprintf("pf0vf%d", i), Up: true, Carrier: true,
		})
	}
	f.addVM(1, "br0")
	f.attach(1, addr(0))
	return f
}

// With representors, a VF is counted by its own port of the switch, from the other side, whatever the PF's driver counts.
// Only the representors of ice count as the VF does.
func TestRepresentorsCount(t *testing.T) {
	for driver, want := range map[string]struct {
		shown string
		Count
	}{
		"mlx5_core": {"rx=2000 tx=10", Count{RxPackets: 2, TxPackets: 1, RxBytes: 4, TxBytes: 3}},
		"ice":       {"rx=10 tx=2000", Count{RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4}},
	} {
		t.Run(driver, func(t *testing.T) { representorsCount(t, driver, want.shown, want.Count) })
	}
}

func representorsCount(t *testing.T, driver, shown string, want Count) {
	f := switchdevWorld()
	f.pfs[0].Driver = driver
	run(t, f, Options{Pool: poolAll, CPUEvery: -1}, func(t *testing.T, s *Source) {
		snapshot(t, s)
		time.Sleep(2 * time.Second)
		f.link("rep0").Counters = netdev.Counters{RxPackets: 20, TxPackets: 4000}
		snap := snapshot(t, s)
		if got := text(snap); !strings.Contains(got, "    vf "+shown+" by pf proof=hardware\n") {
			t.Errorf("got:\n%s", got)
		}
		if f.asked["counters pf0"] > 0 {
			t.Error("the PF was asked for counters")
		}
		r := &fakeReader{links: []netdev.LinkStats{
			{Index: 300, Counters: netdev.Counters{RxPackets: 1, TxPackets: 2, RxBytes: 3, TxBytes: 4}},
			{Index: 301, Counters: netdev.Counters{RxPackets: 9}},
		}, vfs: map[string][]vf.Counters{}}
		c := NewCounters(r)
		c.Follow(snap)
		got, err := c.Read(t.Context(), nil)
		want.NIC, want.VF, want.Device = model.NICID{VM: "id-001", NIC: "ua-net0"}, model.VFID{PF: "pf0"}, 300
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if want.At = got[0].At; got[0] != want {
			t.Errorf("got %+v, want %+v", got[0], want)
		}
	})
}

// A VF that has no representor here would cut a VM off: it is not in the pool, and the others are.
func TestVFWithoutRepresentor(t *testing.T) {
	f := switchdevWorld()
	s := New(f, f.uplinks(), f, nil, Options{Pool: poolAll})
	defer s.Close()
	pf := snapshot(t, s).PFs[0]
	if up := pf.Uplink; up.Why != "" || !up.Representors {
		t.Errorf("uplink %+v", up)
	}
	for i, want := range []struct {
		owner model.Owner
		port  string
	}{{model.OwnerSluice, "rep0"}, {model.OwnerFree, "rep1"}, {model.OwnerForeign, ""}} {
		if vf := pf.VFs[i]; vf.Owner != want.owner || vf.Port != want.port || (want.port == "") != strings.Contains(vf.OwnerWhy, "no representor") {
			t.Errorf("VF %d: %+v", i, vf)
		}
	}
}

// A VF whose representor vanishes while a VM has it is counted by nobody, and the VM's load says so.
func TestRepresentorVanishes(t *testing.T) {
	f := switchdevWorld()
	f.links = slices.DeleteFunc(f.links, func(l netdev.Link) bool { return l.Name == "rep0" })
	s := New(f, f.uplinks(), f, nil, Options{Pool: poolAll})
	defer s.Close()
	const want = "nothing on the host counts VF pf0/0, and no guest agent answers"
	if got := snapshot(t, s).VMs[0].NICs[0].VFPath; got.Known || got.Note != want {
		t.Errorf("got %+v, want the note %q", got, want)
	}
}
