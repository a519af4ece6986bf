package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

func soundPlatform() *Platform {
	return &Platform{
		Kernel: "6.12.0-1-amd64", IOMMUGroups: 3, VFIO: true, Bridges: []string{"br0"}, ConfigFile: "sluice.yaml", Config: "1 PF, 0 rules",
		PFs: []model.PF{{
			Name: "pf0", Driver: "ice", LinkUp: true, NumVFs: 8, TotalVFs: 64, Managed: true, Uplink: model.Uplink{Switch: "br0"},
			Caps: model.Caps{MaxTxRate: model.Yes, MinTxRate: model.Yes, VFCounters: model.Yes, Trust: model.Yes},
		}},
		LibvirtURI: "qemu:///system", VMs: 2, Snapshot: true,
	}
}

// platformFaults are what can be wrong with a host, and the check that must say so.
var platformFaults = []struct {
	subject string
	result  model.CheckResult
	text    string
	cause   func(*Platform)
}{
	{"kernel", model.CheckFail, "no TCX", func(p *Platform) { p.Kernel = "6.1.0-31-amd64" }},
	{"IOMMU", model.CheckFail, "off", func(p *Platform) { p.IOMMUGroups = 0 }},
	{"vfio", model.CheckFail, "no driver vfio-pci", func(p *Platform) { p.VFIO = false }},
	{"bpffs", model.CheckFail, "not mounted", func(p *Platform) { p.Pins = errors.New("not mounted; mount it") }},
	{"0000:81:00.0", model.CheckWarn, "no driver", func(p *Platform) { p.Driverless = []model.PCIAddress{"0000:81:00.0"} }},
	{"pf0", model.CheckFail, "link is down", func(p *Platform) { p.PFs[0].LinkUp = false }},
	{"pf0", model.CheckFail, "has no VFs", func(p *Platform) { p.PFs[0].NumVFs = 0 }},
	{"pf0", model.CheckFail, "in no bridge", func(p *Platform) { p.PFs[0].Uplink = model.Uplink{Why: "pf0 is in no bridge", Remedy: "put it there"} }},
	{"pf0", model.CheckWarn, "cannot limit VFs", func(p *Platform) { p.PFs[0].Caps.MaxTxRate = model.No }},
	{"bridge", model.CheckFail, "no Linux bridge", func(p *Platform) { p.Bridges = nil }},
	{"config", model.CheckFail, "sluice.yaml:3", func(p *Platform) {
		p.ConfigErrors = []model.Problem{{Text: "sluice.yaml:3:1: unknown key", Remedy: "leave it out"}}
	}},
	{"config", model.CheckWarn, "vfs is not set", func(p *Platform) { p.ConfigWarnings = []string{"sluice.yaml:2:3: vfs is not set; set it"} }},
	{"libvirt", model.CheckFail, "refused", func(p *Platform) { p.Libvirt, p.Snapshot = errors.New("connection refused"), false }},
	{"db-1", model.CheckFail, "no failover", func(p *Platform) {
		p.Problems = append(p.Problems, model.Problem{Subject: "db-1", Text: "no failover", Remedy: "sluice prepare db-1"})
	}},
	{"host", model.CheckWarn, "no PF", func(p *Platform) {
		p.Problems = append(p.Problems, model.Problem{Text: "no PF", Remedy: "list one", Info: true})
	}},
}

// A sound host passes; whichever faults it has together, each has its line with a remedy, and nothing else fails.
func TestChecklist(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := soundPlatform()
		var want []int
		for i, f := range platformFaults {
			if rapid.Bool().Draw(t, f.text) {
				f.cause(p)
				want = append(want, i)
			}
		}
		var bad []model.Check
		for _, c := range Checklist(p) {
			if (c.Result == model.CheckPass) != (c.Remedy == "") {
				t.Errorf("a remedy is for what did not pass: %+v", c)
			}
			if c.Result != model.CheckPass {
				bad = append(bad, c)
			}
		}
		if len(bad) != len(want) {
			t.Errorf("%d checks did not pass, want %d: %+v", len(bad), len(want), bad)
		}
		for _, i := range want {
			f := platformFaults[i]
			if !slices.ContainsFunc(bad, func(c model.Check) bool {
				return c.Subject == f.subject && c.Result == f.result && strings.Contains(c.Text, f.text)
			}) {
				t.Errorf("no %s of %s with %q: %+v", f.result, f.subject, f.text, bad)
			}
		}
	})
}

// Which switches a host has decides whether a datapath in user space is a fault.
func TestChecklistOfSwitches(t *testing.T) {
	const none, inUser, kernelsDatapath = "no Linux bridge and no Open vSwitch", "datapath in user space: ovs0, ovs1;", "kernel datapath"
	const ofOVN = "datapath in user space: br-ex, br-int, under OVN"
	userspace := []string{"ovs0", "ovs1"}
	for _, c := range []struct {
		is   Platform
		want map[string]model.CheckResult
	}{
		{Platform{}, map[string]model.CheckResult{none: model.CheckFail}},
		{Platform{OVS: true}, map[string]model.CheckResult{kernelsDatapath: model.CheckPass}},
		{Platform{Userspace: userspace}, map[string]model.CheckResult{inUser: model.CheckFail}},
		{Platform{OVN: []string{"br-ex", "br-int"}}, map[string]model.CheckResult{ofOVN: model.CheckPass}},
		{
			Platform{Userspace: userspace, OVN: []string{"br-ex", "br-int"}},
			map[string]model.CheckResult{ofOVN: model.CheckPass, inUser: model.CheckWarn},
		},
		{
			Platform{Userspace: userspace, Bridges: []string{"br0"}},
			map[string]model.CheckResult{"Linux bridges: br0": model.CheckPass, inUser: model.CheckWarn},
		},
		{Platform{Userspace: userspace, OVS: true}, map[string]model.CheckResult{kernelsDatapath: model.CheckPass, inUser: model.CheckWarn}},
	} {
		checks := switchChecks(&c.is)
		if len(checks) != len(c.want) {
			t.Errorf("%+v: %+v, want %v", c.is, checks, c.want)
		}
		for text, result := range c.want {
			if !slices.ContainsFunc(checks, func(k model.Check) bool {
				system := strings.Contains(k.Remedy, "set bridge ovs1 datapath_type=system")
				return k.Result == result && strings.Contains(k.Text, text) && (k.Remedy == "") == (result == model.CheckPass) &&
					system == (text == inUser && c.is.OVN == nil)
			}) {
				t.Errorf("%+v: %+v, want %s with %q", c.is, checks, result, text)
			}
		}
	}
}

// What is wrong with a PF that the config does not list is a warning, and a host of virtual PFs needs neither IOMMU nor SR-IOV.
func TestChecklistOfWhatIsNotNeeded(t *testing.T) {
	p := soundPlatform()
	p.PFs[0].Managed, p.PFs[0].LinkUp = false, false
	others := soundPlatform()
	others.PFs, others.IOMMUGroups, others.VFIO, others.VirtualOnly = nil, 0, false, true
	for _, p := range []*Platform{p, others} {
		warned := false
		for _, c := range Checklist(p) {
			warned = warned || c.Result == model.CheckWarn
			if c.Result == model.CheckFail {
				t.Errorf("%+v", c)
			}
		}
		if !warned {
			t.Error("no warning")
		}
	}
}
