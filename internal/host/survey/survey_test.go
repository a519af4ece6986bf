package survey

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/control/doctor"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

func TestLook(t *testing.T) {
	dir := t.TempDir()
	look := func() doctor.Platform {
		tree := func(name string) sysif.Tree { return sysif.NewTree(filepath.Join(dir, name), "") }
		return Look(tree("sys"), tree("proc"), tree("modules"))
	}
	if diff := cmp.Diff(doctor.Platform{}, look()); diff != "" {
		t.Errorf("of nothing: %s", diff)
	}
	for name, text := range map[string]string{
		"proc/sys/kernel/osrelease":                       "6.12.0\n",
		"sys/kernel/iommu_groups/0/type":                  "DMA\n",
		"sys/kernel/iommu_groups/1/type":                  "DMA\n",
		"sys/bus/pci/devices/0000:81:00.0/class":          "0x020000\n",
		"sys/bus/pci/devices/0000:81:00.0/sriov_totalvfs": "63\n",
		"sys/bus/pci/devices/0000:82:00.0/class":          "0x020000\n", // has a driver
		"sys/bus/pci/devices/0000:82:00.0/sriov_totalvfs": "63\n",
		"sys/bus/pci/devices/0000:83:00.0/class":          "0x020000\n", // no SR-IOV
		"sys/bus/pci/devices/0000:84:00.0/class":          "0x010802\n", // a disk
		"sys/bus/pci/devices/0000:84:00.0/sriov_totalvfs": "8\n",
		"modules/6.11.0/modules.dep":                      "kernel/drivers/vfio/pci/vfio-pci.ko.zst: x\n",
		"modules/6.12.0/modules.dep":                      "kernel/drivers/vfio/pci/vfio-pci-core.ko: x\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../drivers/igb", filepath.Join(dir, "sys/bus/pci/devices/0000:82:00.0/driver")); err != nil {
		t.Fatal(err)
	}
	want := doctor.Platform{Kernel: "6.12.0", IOMMUGroups: 2, Driverless: []model.PCIAddress{"0000:81:00.0"}}
	if diff := cmp.Diff(want, look()); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"modules/6.12.0/modules.builtin", "sys/bus/pci/drivers/vfio-pci/bind"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("kernel/drivers/vfio/pci/vfio-pci.ko\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !look().VFIO {
			t.Errorf("vfio-pci not found in %s", path)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
