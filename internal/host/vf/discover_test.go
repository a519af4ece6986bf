package vf

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

func TestDiscover(t *testing.T) {
	files, err := testdata.ReadDir("testdata")
	kerneltest.Must(t, err)
	for _, f := range files {
		name, isTree := strings.CutSuffix(f.Name(), ".sysfs")
		if !isTree {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := testdata.ReadFile("testdata/" + f.Name())
			kerneltest.Must(t, err)
			golden(t, name+".want", render(discover(kerneltest.ParseTree(string(text)).Tree())))
		})
	}
}

// render prints PFs for comparison.
func render(pfs []PFInfo) string {
	var b strings.Builder
	for _, p := range pfs {
		fmt.Fprintf(&b, "%s ifindex %d at %s driver %s mac %s node %d up %v speed %d vfs %d of %d self-slots %d\n",
			p.Name, p.Index, p.Address, p.Driver, p.MAC, p.NUMANode, p.LinkUp, p.Speed, p.NumVFs, p.TotalVFs, p.SelfSlots)
		fmt.Fprintf(&b, "  can: max %s min %s counters %s trust %s\n", p.Caps.MaxTxRate, p.Caps.MinTxRate, p.Caps.VFCounters, p.Caps.Trust)
		for i, v := range p.VFs {
			fmt.Fprintf(&b, "  %s at %s driver %q host %+v\n", v.ID, v.Address, v.Driver, p.Uses[i])
		}
	}
	return b.String()
}

const twoVFs = `
class/net/pf0/device -> ../../../0000:01:00.0
class/net/pf0/ifindex = 4
bus/pci/devices/0000:01:00.0/driver -> ../../../bus/pci/drivers/ixgbe
bus/pci/devices/0000:01:00.0/sriov_totalvfs = 63
bus/pci/devices/0000:01:00.0/sriov_numvfs = 2
bus/pci/devices/0000:01:00.0/virtfn0 -> ../0000:01:10.0
bus/pci/devices/0000:01:00.0/virtfn1 -> ../0000:01:10.2
bus/pci/devices/0000:01:10.0/vendor = 0x8086
bus/pci/devices/0000:01:10.2/vendor = 0x8086
`

func TestVFThatVanishesHalfWay(t *testing.T) {
	m := kerneltest.ParseTree(twoVFs)
	m.After = func(op, path string) {
		if op == "readlink" && strings.HasSuffix(path, "virtfn0") {
			m.Remove("/bus/pci/devices/0000:01:10.0")
		}
	}
	pfs := discover(m.Tree())
	if len(pfs) != 1 || len(pfs[0].VFs) != 1 || pfs[0].VFs[0].ID != (model.VFID{PF: "pf0", Index: 1}) {
		t.Errorf("VF 0 vanished, want VF 1 alone: %s", render(pfs))
	}
}

func TestPFThatVanishesHalfWay(t *testing.T) {
	m := kerneltest.ParseTree(twoVFs)
	m.After = func(_, path string) {
		if strings.HasSuffix(path, "virtfn1") {
			m.Remove("/class/net/pf0")
			m.Remove("/bus/pci/devices/0000:01:00.0")
		}
	}
	if pfs := discover(m.Tree()); len(pfs) != 0 {
		t.Errorf("the PF vanished, yet: %s", render(pfs))
	}
}

func TestNumberOfVFsChangesMeanwhile(t *testing.T) {
	m := kerneltest.ParseTree(twoVFs)
	changed := false
	m.After = func(_, path string) {
		if changed || !strings.HasSuffix(path, "virtfn1") {
			return
		}
		changed = true
		m.Content["/bus/pci/devices/0000:01:00.0/sriov_numvfs"] = "3"
		m.Content["/bus/pci/devices/0000:01:00.0/virtfn2"] = "-> ../0000:01:10.4"
		m.Content["/bus/pci/devices/0000:01:10.4/vendor"] = "0x8086"
	}
	pfs := discover(m.Tree())
	if len(pfs) != 1 || pfs[0].NumVFs != 3 || len(pfs[0].VFs) != 3 {
		t.Errorf("a third VF came meanwhile, want all three: %s", render(pfs))
	}
}

func TestNumberOfVFsThatNeverSettles(t *testing.T) {
	m := kerneltest.ParseTree(twoVFs)
	n := 0
	m.After = func(_, path string) {
		if strings.HasSuffix(path, "sriov_numvfs") {
			n++
			m.Content["/bus/pci/devices/0000:01:00.0/sriov_numvfs"] = fmt.Sprint(n)
		}
	}
	if pfs := discover(m.Tree()); len(pfs) != 1 || len(pfs[0].VFs) != 2 {
		t.Errorf("want the two VFs that are there: %s", render(pfs))
	}
}

func TestParkedMAC(t *testing.T) {
	for _, pf := range []model.MAC{
		kerneltest.MAC("a0:36:9f:00:00:01"), kerneltest.MAC("52:54:00:00:00:01"),
		kerneltest.MAC("01:00:00:00:00:00"),
	} {
		seen := map[model.MAC]bool{pf: true}
		for i := range 300 {
			m := parkedMAC(pf, i)
			if seen[m] || m[0]&1 != 0 || m[0]&2 == 0 {
				t.Fatalf("PF %s VF %d is parked on %s: seen before, multicast or not locally administered", pf, i, m)
			}
			seen[m] = true
		}
	}
}

func TestAddStates(t *testing.T) {
	pf := PFInfo{PF: model.PF{
		Name: "pf0", MAC: kerneltest.MAC("a0:36:9f:00:00:01"),
		VFs: []model.VF{{ID: model.VFID{PF: "pf0", Index: 0}}, {ID: model.VFID{PF: "pf0", Index: 2}}, {ID: model.VFID{PF: "pf0", Index: 5}}},
	}}
	addStates(&pf, []vfState{
		{Index: 2, MAC: kerneltest.Guest, VLAN: 7, MaxTxRate: 1e9, SpoofCheck: model.Yes, Trust: model.No},
		{Index: 0, MAC: parkedMAC(pf.MAC, 0)},
		{Index: 1, MAC: kerneltest.Other},
	})
	if vf := pf.VFs[1]; vf.MAC != kerneltest.Guest || vf.VLAN != 7 || vf.MaxTxRate != 1e9 || vf.SpoofCheck != model.Yes ||
		vf.Trust != model.No {
		t.Errorf("VF 2: %+v", vf)
	}
	if vf := pf.VFs[0]; !vf.MAC.IsZero() {
		t.Errorf("the parked VF 0 shows %s, want no address", vf.MAC)
	}
	if vf := pf.VFs[2]; !vf.MAC.IsZero() || vf.SpoofCheck != model.Unknown {
		t.Errorf("VF 5, which the driver does not tell of: %+v", vf)
	}
}

// TestPFsOfThisMachine accepts whatever PFs this machine has, but they must be complete.
func TestPFsOfThisMachine(t *testing.T) {
	pfs, err := newHost(t).PFs(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	for _, p := range pfs {
		if p.Name == "" || p.Index == 0 || p.Address == "" || len(p.VFs) != len(p.Uses) {
			t.Errorf("half a PF: %+v", p)
		}
	}
}

func TestCapsOf(t *testing.T) {
	for _, c := range []struct {
		driver, device string
		vfs            int
		maxRate        model.Tri
		counters       model.Tri
		slots          int
	}{
		{"igb", "0x10c9", 7, model.Yes, model.No, 16},
		{"igb", "0x10C9", 0, model.Yes, model.No, 23},
		{"igb", "0x1521", 7, model.No, model.No, 24},
		{"igb", "0x9999", 7, model.Unknown, model.No, 0},
		{"ixgbe", "0x10fb", 8, model.Yes, model.Yes, 0},
		{"sfc", "", 8, model.No, model.No, 0},
		{"brandnew", "0x1234", 8, model.Unknown, model.Unknown, 0},
		{"", "", 0, model.Unknown, model.Unknown, 0},
	} {
		got, slots := capsOf(c.driver, c.device, c.vfs)
		if got.MaxTxRate != c.maxRate || got.VFCounters != c.counters || slots != c.slots {
			t.Errorf("%s %s with %d VFs: %+v, %d slots; want max rate %s, counters %s, %d slots",
				c.driver, c.device, c.vfs, got, slots, c.maxRate, c.counters, c.slots)
		}
	}
}
