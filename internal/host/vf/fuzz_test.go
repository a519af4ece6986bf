package vf

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
)

// FuzzDiscover reads arbitrary sysfs trees: the result must be complete, sorted and consistent.
func FuzzDiscover(f *testing.F) {
	f.Add(twoVFs)
	f.Add("class/net/a/device -> 0000:01:00.0\n" +
		"class/net/a/ifindex = 99999999999999999999\nbus/pci/devices/0000:01:00.0/sriov_totalvfs = 0x7\n" +
		"bus/pci/devices/0000:01:00.0/virtfn-1 -> x")
	f.Add("class/net/v/device -> virtio0\nbus/virtio/devices/virtio0 -> ../../0000:02:00.0/virtio0\n" +
		"class/net/v/ifindex = 2\nbus/pci/devices/0000:02:00.0/sriov_totalvfs = 4")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return // the simulated tree is slow, not the reader
		}
		pfs := discover(kerneltest.ParseTree(text).Tree())
		if !slices.IsSortedFunc(pfs, func(a, b PFInfo) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("not in order: %s", render(pfs))
		}
		for _, p := range pfs {
			if p.Name == "" || p.Index <= 0 || p.TotalVFs <= 0 || p.NumVFs < 0 || p.SelfSlots < 0 || len(p.Uses) != len(p.VFs) {
				t.Errorf("impossible PF: %s", render(pfs))
			}
			for i, v := range p.VFs {
				if v.ID.PF != p.Name || v.ID.Index < 0 || v.Address == "" || i > 0 && v.ID.Index < p.VFs[i-1].ID.Index {
					t.Errorf("impossible VF %s: %s", v.ID, render(pfs))
				}
			}
		}
	})
}
